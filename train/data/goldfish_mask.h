// The targets that Goldfish loss drops, decided by ids and numbers alone: the same on every rank and grid, and for a
// run that goes on.
#pragma once

#include <cstdint>
#include <span>

#include "train/config/goldfish.h"

namespace weft::train {

/// Target t of a window of T + 1 ids is id t + 1. It is dropped
/// - by `hash`: if mixed_bits(K) < ⌊(2⁶⁴ − 1) / k⌋, where K = Σ Cⁿ · mixed_bits(id t − n) mod 2⁶⁴ over n from 0 to
///   h − 1 and C = 0x9e3779b97f4a7c15. So the h ids before the target decide, and equal contexts drop the same;
/// - by `avalanche`: as the paper's code does under the name "hash-avalanche": by Thomas Wang's integer hash of the
///   product of the h ids that end with the target itself;
/// - by `fixed`: if k divides t;
/// - by `random`: if the Philox word of element `sequence` · T + t is below ⌊(2³² − 1) / k⌋.
/// The first two drop none of the first h − 1 targets of a window, whose contexts aren't all in it; and, if contexts
/// end with documents, none of the first h − 1 targets of a document.
class GoldfishMask {
 public:
  enum class Contexts : std::uint8_t { cross_documents, end_with_documents };

  GoldfishMask(const Goldfish& goldfish, std::uint64_t seed, Contexts contexts = Contexts::cross_documents);

  /// Writes −1 for each target to drop. `window`: T + 1 ids; `document_starts`: T, as TokenStream::document_starts(),
  /// read if contexts end with documents; `targets`: T; `sequence`: the window's number since the start of the run,
  /// over all ranks.
  void drop(std::span<const std::int32_t> window, std::span<const std::int32_t> document_starts, std::uint64_t sequence,
            std::span<std::int32_t> targets) const;

 private:
  /// The distance from the first token of the window or the document to target t.
  std::size_t tokens_before(std::size_t t, std::span<const std::int32_t> document_starts) const;
  void drop_by_hash(std::span<const std::int32_t> window, std::span<const std::int32_t> document_starts,
                    std::span<std::int32_t> targets) const;
  void drop_by_product(std::span<const std::int32_t> window, std::span<const std::int32_t> document_starts,
                       std::span<std::int32_t> targets) const;

  Goldfish goldfish_;
  Contexts contexts_;
  std::uint64_t seed_, k_, oldest_;  // oldest_: the factor that an id has when it leaves the context
  std::size_t h_;
};

}  // namespace weft::train
