// Computes layers again and gathers weights again where memory is short, for policies that search.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {

/// Applies further rewrites (by class) to the graphs of a step. The graphs' own rewrites stay, and come first.
using Rewritten =
    std::function<std::vector<std::shared_ptr<const graph::Graph>>(const std::vector<std::vector<plan::Rewrite>>&)>;

struct FittingRewrites {
  bool possible = false;  // is there a layer to compute again, or a weight to gather again?
  /// Of the shortest step that was found, by class: recompute, then reshard. Empty if the plain graphs' is the
  /// shortest, or if nothing fits.
  std::vector<std::vector<plan::Rewrite>> rewrites;
  std::vector<std::shared_ptr<const graph::Graph>> graphs;  // after `rewrites`; empty if these are empty
  std::size_t priced = 0;                                   // number of steps that fit and were compared
  LimitedOrders least;  // the serial orders that exceed the limits by the least share
};

/// Searches plan::RecomputeLayers and plan::ReshardAfterForward of the first layers: a kept activation of an early
/// layer takes memory for longest, and all of them together at the end of the forward pass. For several numbers of
/// layers whose weights are gathered again it finds the least number of recomputed layers of which a serial plan keeps
/// the limit, and goes on to more layers as long as that makes the step shorter, since list schedules use the memory
/// that is left. With several classes, each class that is `short_of_memory` computes the first quarter, half, three
/// quarters or all of its layers again. A step is priced by a few list schedules (timetable.h), not by the policy
/// itself, which orders only the best one. The options must have a limit.
FittingRewrites find_fitting_rewrites(std::size_t classes, const Rewritten& rewritten,
                                      const std::vector<bool>& short_of_memory, const PolicyOptions& options);

}  // namespace weft::policy
