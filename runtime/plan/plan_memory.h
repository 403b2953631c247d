// The memory planner: byte offsets of scratch tensors in one arena that every step uses again.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/plan_waits.h"

namespace weft::plan {

/// Offsets are multiples of this, so that no two tensors share a cache line or its prefetched neighbour.
inline constexpr std::int64_t kTensorAlignment = 128;

struct MemoryPlan {
  std::vector<std::int64_t> offset;      // by tensor; kNoOffset for state
  std::int64_t scratch_bytes = 0;        // the arena
  std::int64_t sum_of_tensor_bytes = 0;  // each tensor rounded up to the alignment, side by side
  std::vector<graph::Edge> edges;        // completes_before, distance 1, reason memory
};

/// Two tensors share bytes only if, within a step, every access of one happens before every access of the other under
/// the given order: sharing adds no edge inside a step, so it never costs overlap. Across the boundary of steps the
/// last occupant of a byte must be done before the first one of the next step: where the order doesn't imply that, an
/// edge of distance 1 does. (A tensor alone in its bytes follows itself: the graph's own edges of distance 1 are about
/// state only.)
///
///   a:[1,2] b:[3,4] c:[5,6] in program order at one offset:  a then b then c, and the edge c → next step's a
///
/// Greedy best fit (dynamic storage allocation is NP-hard): once by falling size, as in Pisarchyk and Lee, "Efficient
/// Memory Management for Deep Neural Net Inference" (2001.03288), once by first use; the smaller arena wins.
/// Tensors that nobody accesses, or without elements, lie at offset 0 and take no bytes.
MemoryPlan plan_memory(const Plan& plan, const HappensBefore& order);

}  // namespace weft::plan
