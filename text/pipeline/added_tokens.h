// Tokens that are found in a text before it is split: special tokens and those that a person added.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::text {

struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool special = false;
  bool single_word = false;  // only where no word goes on before and behind it
  bool strip_left = false;   // white space before it belongs to it
  bool strip_right = false;  // and behind it
  bool normalized = false;   // it is looked for in the normalized text
};

/// Finds texts in a text: at each place the longest. Any number of threads may search.
class AddedTokens {
 public:
  using Normalize = std::function<std::string(std::string_view)>;

  AddedTokens() = default;
  /// `normalize` is applied to the texts of tokens that are looked for in normalized text, if there are any.
  explicit AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize = {});

  /// Calls `plain` for the pieces between tokens and `token` for tokens, in order; with `special` false, texts of
  /// special tokens are plain text. `normalized`: looks for the tokens of normalized text, else for the others.
  void split(std::string_view text, bool normalized, bool special, const std::function<void(std::string_view)>& plain,
             const std::function<void(const AddedToken&)>& token) const;

  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view text) const;
  std::optional<std::int32_t> id_of(std::string_view text) const;
  /// Whether a token could lie across a place where cut_after() cuts.
  bool may_cross_lines() const { return crosses_lines_; }

 private:
  using Index = std::map<std::string, std::size_t, std::less<>>;  // of tokens_, by text
  /// Texts that are looked for, and their first bytes.
  struct Wanted {
    Index tokens;
    std::array<bool, 256> begins{};
  };
  static Index::const_iterator longest_at_begin(const Wanted& wanted, std::string_view text);

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  Index by_text_;
  Wanted raw_, normalized_;
  bool crosses_lines_ = false;
};

}  // namespace weft::text
