// Runs a plan in virtual time: discrete events over the very object that an executor runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graph/grid.h"
#include "runtime/costs.h"
#include "runtime/machine.h"
#include "runtime/plan.h"
#include "runtime/trace.h"

namespace weft {

struct SimulationOptions {
  Grid grid;
  /// Which physical link a channel's messages take: channels with equal numbers share its bandwidth. Empty: by machine
  /// and grid (links_of_channels).
  std::vector<int> link_of_channel;
  int steps = 1;         // simulated one after the other; each begins when the one before has drained
  double noise = 0;      // relative standard deviation of every task's time, log-normal, by rank; 0: all ranks alike
  double slow_rank = 1;  // factor on the computations of rank 0
  std::uint64_t seed = 0;
};

/// What happened to one rank.
struct SimulatedRank {
  int rank = 0;
  std::vector<StepTrace> steps;  // nanoseconds, rounded
  double contention_ns = 0;      // of the last step: what computations took longer than alone
};

struct Simulation {
  double step_ns = 0;                // of the last step, over all ranks
  std::vector<SimulatedRank> ranks;  // one when all ranks behave alike, else one a rank
  std::int64_t events = 0;
};

/// Which link each channel uses on this machine, by channel: within a node, or the node's network.
std::vector<int> links_of_channels(const Machine& machine, const Grid& grid);

/// Streams are in order; a task starts when its stream is free and its waits hold; a collective also when all members
/// of its group are there. Work proceeds at rates that change with every event: collectives on one link share it
/// evenly, computations beside a collective are slowed down by the machine's factors and by the cores that the
/// transport takes. Throws RuntimeFault naming the tasks when the plan can't be run to its end.
Simulation simulate(const Plan& plan, const TaskCosts& costs, const Machine& machine, const SimulationOptions& options);

}  // namespace weft
