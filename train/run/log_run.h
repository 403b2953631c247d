// The first records in the log of a run: libraries, configuration, hosts of the ranks, plans and memory.
#pragma once

#include "runtime/comm/communicator.h"
#include "train/run/describe_run.h"

namespace weft::train {

/// Logs the description of a run; rank 0 writes the records that are the same on all ranks. Collective over the world.
void log_run(comm::World& world, const RunDescription& run);

}  // namespace weft::train
