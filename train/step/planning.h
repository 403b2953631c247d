// The graphs of a training step, and the inputs of policies that order them: the machine, and the costs of tasks.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"
#include "runtime/simulate/report.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// The graphs of a training step of a resolved configuration: one for each pipeline stage.
std::vector<std::shared_ptr<const graph::Graph>> train_classes(const RunConfig& config);

/// The options of policies in a run. Without machine and profile they use the default cost model.
policy::PolicyOptions policy_options(const ResolvedRun& run);

/// The rewrites of a run before the policy's own: the key `rewrites`, and the keys fuse-gelu and pack-weights. `auto`
/// packs weights that enough products of a step read, on the CPU, if they take at most 1 GiB. It doesn't pack under a
/// memory limit, for a named machine, whose products may not read packed weights, or if the policy decides about
/// packing.
std::vector<plan::Rewrite> chosen_rewrites(const ResolvedRun& run);

/// The training step of a run, to be planned, simulated and compared: the graphs of all its stages. Costs come from the
/// profile for the tasks that it has, else from the machine (by default a laptop), which also describes the resources
/// that tasks share. A pipeline's ranks share the cores that the profile tells.
simulate::Problem planning_problem(const ResolvedRun& run);
/// For graphs that were lowered already: a training step of the run's grid.
simulate::Problem planning_problem(const ResolvedRun& run, std::vector<std::shared_ptr<const graph::Graph>> classes);

}  // namespace weft::train
