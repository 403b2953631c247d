// The measurements of `weft machine measure`: what a machine file holds of CPUs and of the links between their ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status_line.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/machine.h"

namespace weft::train {

/// What is measured. Seconds of points are ignored.
struct MachineSizes {
  std::vector<cost::GemmPoint> gemms;
  std::vector<cost::AttentionPoint> attention;
  std::int64_t memory_elements = std::int64_t{1} << 24;  // floats of each array whose sum measures the memory
  std::vector<std::int64_t> collective_bytes;            // of the whole array
  std::int64_t tasks = 2000;                             // empty ones in a step
  int repeats = 7;                                       // whose median counts
  int rounds_beside = 35;                                // of a collective beside a computation: a difference of times
  double least_seconds = 0.02;                           // of a repeat, which runs short computations several times
};

/// Six shapes of products in three layouts and two dtypes, and collectives from 1 KiB to 16 MiB; `quick`: half of the
/// shapes and sizes, with fewer repeats.
MachineSizes machine_sizes(bool quick);

/// Measures with all ranks of the world at once, each on `threads` threads, as a step computes. Collectives run on the
/// ranks of each node and, if there are several nodes, on the world. A link that no two ranks have gets assumed
/// numbers, and says so. Every number and point has a source. Every rank gets the same machine. Calls `tell` on rank 0
/// with the progress. Collective over the world.
cost::Machine measure_machine(comm::World& world, const std::string& name, const MachineSizes& sizes, int threads,
                              const TellStatus& tell);

}  // namespace weft::train
