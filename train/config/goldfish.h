// Goldfish loss: which targets of a training step are dropped from its loss (Hans et al., "Be like a Goldfish, Don't
// Memorize!", 2024).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::train {

struct Goldfish {
  enum class Strategy : std::uint8_t { hash, avalanche, fixed, random };

  std::int64_t k = 4;   // one target in k is dropped
  std::int64_t h = 13;  // ids of a context, for the first two strategies
  Strategy strategy = Strategy::hash;

  /// Whether the ids before a target decide, and not its position.
  bool reads_context() const { return strategy == Strategy::hash || strategy == Strategy::avalanche; }
  friend bool operator==(const Goldfish&, const Goldfish&) = default;
};

/// "k=4,h=13,strategy=hash"; without h where positions decide; "" for none.
std::string to_text(const std::optional<Goldfish>& goldfish);

/// Reads to_text(); members may be left out and stand in any order, and an empty text is none. `where` opens messages.
/// Throws UserError, naming the member.
std::optional<Goldfish> goldfish_of(std::string_view text, std::string_view where);

}  // namespace weft::train
