// Lower bounds on the time of a pipeline's step under any orders of its stages.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/simulate/bounds.h"

namespace weft::simulate {

/// In nanoseconds. A stage's bounds are on the whole step, not on its own part of it.
struct JointBounds {
  std::vector<Bounds> stages;
  Bounds step;  // the greatest of each bound over all stages
  double best() const { return step.best(); }
};

/// The longest path through all stages, by stage: head, tail and length go over messages and collectives into other
/// stages; `tasks` is the part of one longest path that is on the stage. A message counts as one task of its Send's
/// cost, and so does a collective of several stages. Messages are paired by channel and number, collectives by channel
/// and name; what has no other half stands alone. Throws std::logic_error if the stages wait for each other in a circle
/// whatever the order.
std::vector<graph::CriticalPath> joint_paths(std::span<const std::shared_ptr<const graph::Graph>> classes,
                                             std::span<const cost::TaskCosts> costs);

/// lower_bounds() of each stage with these heads and tails: classes[k] is the graph of pipeline rank k. It bounds the
/// steps of simulate_together() without noise.
///
/// Proof. Whatever the orders, a task starts after its head and ends at least its tail before the step does: induction
/// over edges, where the two halves of a message begin and end together, as do the members of a collective. So a
/// resource of a stage (its computations, a channel, a direction of a link) that serves a set S of tasks one at a time
/// needs min head(S) + Σ cost(S) + min tail(S). Of the last of p stages, with work F forward and B backward on each of
/// m micro-batches, that is the lead-in (p − 1)F, the work m(F + B) and the tail (p − 1)B. Gradients of weights that
/// are tasks of their own can fill the tail, so that the lead-in alone remains.
JointBounds joint_bounds(std::span<const std::shared_ptr<const graph::Graph>> classes,
                         std::span<const cost::TaskCosts> costs, const cost::Machine& machine, int compute_streams,
                         const std::vector<int>& link_of_channel);

}  // namespace weft::simulate
