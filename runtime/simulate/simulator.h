// Runs a plan in virtual time: discrete events over the very object that an executor runs.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/grid.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::simulate {

struct SimulationOptions {
  graph::Grid grid;
  /// Which physical link a channel's messages take: channels with equal numbers share its bandwidth. Empty: by machine
  /// and grid (links_of_channels).
  std::vector<int> link_of_channel;
  int steps = 1;         // simulated one after the other; each begins when the one before has drained on all ranks
  double noise = 0;      // relative standard deviation of every task's time, log-normal, by rank; 0: all ranks alike
  double slow_rank = 1;  // factor on the computations of rank 0
  std::uint64_t seed = 0;
  std::int64_t traced_ranks = 0;  // traces are kept of the first so many ranks; 0: of all
};

/// What happened to one rank.
struct SimulatedRank {
  int rank = 0;
  std::vector<plan::StepTrace> steps;  // nanoseconds, rounded; a collective begins when this rank has come to it
  double contention_ns = 0;            // of the last step: what computations took longer than alone
};

struct Simulation {
  double step_ns = 0;                // of the last step, over all ranks
  std::vector<SimulatedRank> ranks;  // one when all ranks behave alike, else one for each that is traced
  std::int64_t events = 0;           // tasks that ended, a collective once for each member
};

/// Which link each channel uses on this machine, by channel: 0 within a node, 1 the node's network.
std::vector<int> links_of_channels(const cost::Machine& machine, const graph::Grid& grid);

/// Streams are in order; a task starts when its stream is free and its waits hold; a collective also when all members
/// of its group are there. Work proceeds at rates that change with every event:
/// - collectives that run on one link of a rank share it evenly, and go no faster than their slowest member;
/// - a collective takes TaskCosts::beside_ns while computations of its rank run beside it;
/// - a computation is slowed down by the greatest of the machine's factors for the collectives that run beside it;
/// - with Machine::shared_cores the transports take cpu_ns/ns cores each as they go (if they want more than there are,
///   they are slowed down alike), and the computations, of which each of k streams can use cores/k, share the rest.
/// What a task's noise is depends on seed, step, rank and task alone, so that plans of one graph are compared under
/// equal noise. Throws UserError on options out of range, std::logic_error if the costs are of another graph, and
/// RuntimeFault naming the tasks when the plan can't be run to its end.
Simulation simulate(const plan::Plan& plan, const cost::TaskCosts& costs, const cost::Machine& machine,
                    const SimulationOptions& options);

}  // namespace weft::simulate
