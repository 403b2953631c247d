// Computes layers again and gathers weights again where memory is short, for policies that search.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// A step's graph with further rewrites, after those that it has anyway.
using Rewritten = std::function<std::shared_ptr<const graph::Graph>(std::span<const plan::Rewrite>)>;

struct FittingRewrites {
  bool possible = false;  // is there a layer to compute again, or a weight to gather again?
  /// Of the shortest step that was found: recompute, then reshard. Empty if the plain graph's is the shortest, or if
  /// nothing fits.
  std::vector<plan::Rewrite> rewrites;
  std::shared_ptr<const graph::Graph> graph;  // after `rewrites`; null if these are empty
  std::size_t priced = 0;                     // number of graphs that fit and were compared
  std::int64_t least_scratch = 0;             // of the plans that were tried; 0 if none was
};

/// Searches plan::RecomputeLayers and plan::ReshardAfterForward of the first layers: a kept activation of an early
/// layer takes memory for longest, and all of them together at the end of the forward pass. For several numbers of
/// layers whose weights are gathered again it finds the least number of recomputed layers of which a serial plan keeps
/// the limit, and goes on to more layers as long as that makes the step shorter, since list schedules use the memory
/// that is left. A graph is priced by a few list schedules (timetable.h), not by the policy itself, which orders only
/// the best one. `options.memory_limit`: bytes of scratch that a plan may take, not 0.
FittingRewrites find_fitting_rewrites(const Rewritten& rewritten, const PolicyOptions& options);

}  // namespace weft::policy
