// What the log of a run tells of its beginning: the libraries, the configuration, where the ranks are, plans and
// memory.
#pragma once

#include "runtime/comm/communicator.h"
#include "train/run/describe_run.h"

namespace weft::train {

/// Records of what would run; those of all ranks alike are rank 0's. Collective over the world.
void log_run(comm::World& world, const RunDescription& run);

}  // namespace weft::train
