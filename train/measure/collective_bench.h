// Measures collectives and messages apart from steps: alone, and beside computations that let them progress.
#pragma once

#include "base/status_line.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/profile.h"
#include "runtime/plan/plan.h"
#include "train/config/config.h"

namespace weft::train {

/// Of all ranks' plans; `plan` is this rank's. The profile has an entry for each computation of any rank. Collectives
/// and messages get their core times and their times beside computations, and an entry where they have none: a
/// collective's time is that of members that begin at once, a message's that of two ends that are ready, one pair of
/// stages after the other. Slowdowns are measured for kinds of computations that matter. Every rank gets the same
/// profile. Collective over the world.
void measure_collectives(comm::World& world, const RunConfig& config, const plan::Plan& plan, int rounds,
                         const TellStatus& tell, cost::Profile& profile);

}  // namespace weft::train
