// Which rows move, and where to, when ranks exchange the rows of their experts (graph::ExchangeRows): for kernels on
// any device. How many they are is read from the exchange's table; all else is known before.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace weft::kernels {

/// The most ranks of an exchange on GPUs.
inline constexpr std::int64_t kMostRowRanks = 256;

/// One rank's rows on their way between its own buffer and one buffer for each rank of its group. Its own buffer has
/// the rows of its tokens, in the order in which it gives them to experts, or with `holds` those that its experts got.
/// The buffer of another rank is that rank's, with the rows of the other kind; or with `segments` it has only what
/// passes between the two ranks, and room for `segment_rows()` rows.
struct RowMove {
  const std::int32_t* table = nullptr;  // [ranks, experts + 1]
  std::int64_t ranks = 1, experts = 0;
  std::int64_t rows = 0, most = 0;  // that a rank's tokens have, and that its experts have place for
  std::int64_t row_bytes = 0;
  std::int64_t rank = 0;  // the own one
  bool holds = false, segments = false;
  bool collects = false;  // rows come to the own buffer; else they leave it
  void* own = nullptr;

  /// The most that a rank gives to the experts of another: a token takes an expert once.
  WEFT_HOST_DEVICE std::int64_t segment_rows() const { return most / ranks; }
};

/// Rows that pass between the own rank and `peer`.
WEFT_HOST_DEVICE inline std::int64_t rows_between(const RowMove& move, std::int64_t peer) {
  const std::int64_t giver = move.holds ? peer : move.rank, holder = move.holds ? move.rank : peer;
  const std::int64_t own = move.experts / move.ranks;
  const std::int32_t* const of_holder = move.table + giver * (move.experts + 1) + holder * own;
  return of_holder[own] - of_holder[0];
}

/// Where a row stands in the own buffer and in the peer's. `fits`: within both; a table for which it doesn't can't be.
struct MovedRow {
  std::int64_t own, other;
  bool fits;
};

/// Row i of those that pass between the own rank and `peer`.
WEFT_HOST_DEVICE inline MovedRow moved_row(const RowMove& move, std::int64_t peer, std::int64_t i) {
  const std::int64_t giver = move.holds ? peer : move.rank, holder = move.holds ? move.rank : peer;
  const std::int64_t first = holder * (move.experts / move.ranks), length = move.experts + 1;
  const std::int32_t* const of_giver = move.table + giver * length;
  const std::int64_t given = of_giver[first] + i;
  std::int64_t expert = first, end = first + move.experts / move.ranks;
  while (end - expert > 1) {
    const std::int64_t middle = (expert + end) / 2;
    (of_giver[middle] <= given ? expert : end) = middle;
  }
  // Held rows are sorted by expert, then by giver.
  std::int64_t held = given - of_giver[expert];
  for (std::int64_t r = 0; r < move.ranks; ++r) {
    const std::int32_t* const of_rank = move.table + r * length;
    held += of_rank[r < giver ? expert + 1 : expert] - of_rank[first];
  }
  const bool fits = given >= 0 && given < move.rows && held >= 0 && held < move.most;
  const std::int64_t own = move.holds ? held : given;
  return {own, move.segments ? i : move.holds ? given : held, fits};
}

}  // namespace weft::kernels
