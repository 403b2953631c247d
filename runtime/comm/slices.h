// The slices of a collective: which elements belong to which rank, defined once for every transport.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// Elements [begin, begin + count) of the full vector.
struct Slice {
  std::int64_t begin = 0, count = 0;
};

/// Elements of the full vector: all ranks' slices.
constexpr std::int64_t full_length(const CollectiveCall& call, int ranks) {
  return call.in_place() ? call.count : call.count * ranks;
}

/// Number of elements of a rank's slice; slices of the last ranks may be shorter or empty.
constexpr std::int64_t slice_length(const CollectiveCall& call, int ranks) {
  return (full_length(call, ranks) + ranks - 1) / ranks;
}

/// The slice that `rank` sums (all_reduce, reduce_scatter) or shares (all_reduce, all_gather, broadcast).
/// Example: an all_reduce of 7 elements over 4 ranks has slices of 2, 2, 2 and 1.
constexpr Slice slice_of(const CollectiveCall& call, int ranks, int rank) {
  const std::int64_t length = slice_length(call, ranks), total = full_length(call, ranks);
  const std::int64_t begin = std::min(length * rank, total);
  return {begin, std::min(length, total - begin)};
}

/// Throws std::logic_error when `call` can't be right on any rank: a negative count, a root outside the group, a
/// missing buffer.
void check_call(const CollectiveCall& call, int ranks);

/// "all_reduce of 7 f32" for messages.
std::string describe(const CollectiveCall& call);

}  // namespace weft::comm
