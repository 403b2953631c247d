// From a configuration to what policies plan for: the training graph, the machine, and the costs of tasks.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/cost/profile.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"
#include "runtime/simulate/plan_report.h"
#include "train/config/config.h"

namespace weft {

/// What policies may know in a run of a resolved configuration. Without machine and profile they plan by the default
/// cost model. Throws UserError on files that can't be read.
PolicyOptions policy_options(const RunConfig& config);

/// What a resolved configuration does to its graphs before the policy's own rewrites: `rewrites`, and fuse-gelu and
/// pack-weights as the keys of these names say. `auto` packs on the CPU what enough products of a step read, if it
/// takes at most 1 GiB; not under a memory limit, for a named machine, whose products may read weights as they are, or
/// where a plan file says itself what its plan packs.
std::vector<Rewrite> chosen_rewrites(const RunConfig& config);

/// The fingerprint of the plan of the training step that a configuration, not yet resolved, describes, as a run of it
/// has it. Throws UserError if what it names can't be read, or may not be loaded.
std::uint64_t compiled_fingerprint(RunConfig config);

/// The training step of a resolved configuration, to be planned, simulated and compared. A profile counts where it
/// knows a task; the machine, by default a laptop, for the rest and for what tasks share.
PlanningProblem planning_problem(const RunConfig& config);
/// The same with a profile that has just been measured.
PlanningProblem planning_problem(const RunConfig& config, const Profile& profile);

}  // namespace weft
