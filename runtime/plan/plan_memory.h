// The memory planner: byte offsets of scratch tensors in one arena, which every step reuses.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/plan_waits.h"

namespace weft::plan {

/// Offsets are multiples of this, so that no two tensors share a cache line or its prefetched neighbour.
inline constexpr std::int64_t kTensorAlignment = 128;

/// Sets the plan's offsets and sizes, and returns edges that it needs (completes_before, distance 1, reason memory).
///
/// Two tensors share bytes only if, within a step, every access of one happens before every access of the other under
/// the given order. So sharing adds no edge within a step and never costs overlap. The last occupant of a byte must be
/// done before the first occupant of the next step starts; where the order doesn't imply this, the planner adds an edge
/// of distance 1. (This holds for a tensor that shares no bytes, too: the graph's own edges of distance 1 are only
/// about state.)
///
///   a:[1,2] b:[3,4] c:[5,6] in program order at one offset:  a then b then c, and the edge c → next step's a
///
/// Greedy best fit, as dynamic storage allocation is NP-hard: once by falling size, as in Pisarchyk and Lee, "Efficient
/// Memory Management for Deep Neural Net Inference" (2001.03288), once by first use; the smaller arena is taken.
/// Tensors that no task accesses, or without elements, have offset 0 and take no bytes.
std::vector<graph::Edge> plan_memory(Plan& plan, const HappensBefore& order);

}  // namespace weft::plan
