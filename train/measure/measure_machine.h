// The measurements of `weft machine measure`: what a machine file holds of CPUs or GPUs and of the links between ranks.
#pragma once

#include <string>

#include "base/status_line.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/machine.h"
#include "train/config/config.h"
#include "train/measure/machine_timer.h"

namespace weft::train {

/// For CPUs or GPUs: six shapes of products in three layouts and two dtypes, and collectives from 1 KiB to 16 or 256
/// MiB; `quick`: half of the shapes and sizes, with fewer repeats.
MachineSizes machine_sizes(DeviceKind device, bool quick);

/// Measures by the timer with all ranks of the world at once, as a step computes. Collectives run on the ranks of each
/// node, on groups of them, and, if there are several nodes, on the world. A link that no two ranks have gets assumed
/// numbers, and says so. Every number and point has a source. Every rank gets the same machine. Calls `tell` on rank 0
/// with the progress. Collective over the world.
cost::Machine measure_machine(comm::World& world, const std::string& name, const MachineSizes& sizes,
                              MachineTimer& timer, const TellStatus& tell);

}  // namespace weft::train
