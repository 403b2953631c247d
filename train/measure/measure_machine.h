// The measurements of `weft machine measure`: what a machine file holds of CPUs or GPUs and of the links between ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status_line.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/machine.h"
#include "train/config/config.h"

namespace weft::train {

class MachineTimer;  // train/measure/machine_timer.h

/// Seconds of points are ignored.
struct MachineSizes {
  std::vector<cost::GemmPoint> gemms;
  std::vector<cost::AttentionPoint> attention;
  std::int64_t memory_elements = std::int64_t{1} << 24;  // floats of each array whose sum measures the memory
  std::vector<std::int64_t> collective_bytes;            // of the whole array
  std::int64_t tasks = 2000;                             // of the smallest ones, in a step
  std::int64_t product_beside = 4096;                    // rows and columns of products beside collectives on GPUs
  int repeats = 7;                                       // whose median counts
  int rounds_beside = 35;                                // of a collective beside a computation: a difference of times
  double least_seconds = 0.02;                           // of a repeat, which runs short computations several times
};

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
