// From a run to what policies plan for: the training graph, the machine, and the costs of tasks.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"
#include "runtime/simulate/plan_report.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// What policies may know in a run. Without machine and profile they plan by the default cost model.
policy::PolicyOptions policy_options(const ResolvedRun& run);

/// What a run does to its graphs before the policy's own rewrites: `rewrites`, and fuse-gelu and
/// pack-weights as the keys of these names say. `auto` packs on the CPU what enough products of a step read, if it
/// takes at most 1 GiB; not under a memory limit, for a named machine, whose products may read weights as they are, or
/// where the policy says itself what it packs.
std::vector<plan::Rewrite> chosen_rewrites(const ResolvedRun& run);

/// The fingerprint of the plan of the training step that a configuration, not yet resolved, describes, as a run of it
/// has it. Throws UserError if what it names can't be read, or may not be loaded.
std::uint64_t compiled_fingerprint(RunConfig config);

/// The training step of a run, to be planned, simulated and compared. A profile counts where it knows a task; the
/// machine, by default a laptop, for the rest and for what tasks share.
simulate::PlanningProblem planning_problem(const ResolvedRun& run);

}  // namespace weft::train
