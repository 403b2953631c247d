// Runs a plan in virtual time, by discrete events, on the same plan object that an executor runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/grid.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::simulate {

struct SimulationOptions {
  graph::Grid grid;
  /// Of an open graph: the number of ranks of each class, whose groups its channels tell (graph::ChannelInfo), in place
  /// of the grid. Ranks are numbered class by class.
  std::vector<std::size_t> class_ranks = {};
  /// By channel: the number of its physical link. Channels with equal numbers share a link's bandwidth. Empty: links
  /// follow from machine and grid (links_of_channels()).
  std::vector<int> link_of_channel;
  int steps = 1;            // number of steps; each begins when the previous one has ended on all ranks
  double noise = 0;         // relative standard deviation of every task's time, log-normal, by rank; 0: identical ranks
  double slow_rank = 1;     // factor on the computations of one rank
  std::int64_t slowed = 0;  // that rank's number
  std::uint64_t seed = 0;
  std::int64_t traced_ranks = 0;                // number of ranks, from 0, whose traces are kept; 0: all
  std::vector<cost::CorePool> core_pools = {};  // ranks that share cores; all ranks are simulated then
};

/// The result of one rank. Its times are rounded to nanoseconds; a collective begins when this rank is ready for it.
struct SimulatedRank : plan::RankTrace {
  double contention_ns = 0;  // of the last step: sum of the computations' times beyond their times alone
};

struct Simulation {
  double step_ns = 0;                // of the last step, over all ranks
  std::vector<SimulatedRank> ranks;  // if all ranks of a class are identical, one entry a class, whose `rank` is the
                                     // class's index; else one per traced rank
  /// By class: the index of the rank that stands for it, the first one of those that differ in class alone.
  std::vector<std::size_t> of_class;
  std::int64_t events = 0;  // number of ends of tasks, a collective once per member
};

/// By channel: the link that it uses on this machine, 0 within a node, 1 for the node's network.
std::vector<int> links_of_channels(const cost::Machine& machine, const graph::Grid& grid);

/// By channel: the link that the graphs themselves name (ChannelInfo::link).
std::vector<int> links_of_channels(graph::Classes classes);

/// Streams are in order. A task starts when its stream is free and its waits hold; a collective, when this is true on
/// all members of its group. Work proceeds at rates that change with every event:
/// - collectives that run on one link of a rank share it (runtime/time/class_loads.h), and run at the rate of their
///   slowest member;
/// - a collective runs at the rate of TaskCosts::beside_ns while computations of its rank run;
/// - a computation is slowed down by the greatest of the machine's factors for the collectives that run beside it;
/// - with Machine::shared_cores each transport takes cpu_ns/ns cores while it runs (all are slowed down by one factor
///   if they need more cores than there are), and the computations share the remaining cores, of which each of k
///   streams can use cores/k;
/// - ranks of a core pool whose computations and transports need more cores than it has get one share of their cores:
///   of the rate of their computations, and of that of collectives beside these.
/// A task's noise only depends on seed, step, rank and task, so that plans of one graph are compared with equal noise.
/// plans[k] is the plan of the ranks of class k, and the plans fit together (plan::check()). A message is a
/// collective of two, a Send and its Receive: it begins when both have arrived, takes its Send's time, and ends for
/// both at once. A Receive's own cost counts for nothing but cores. A link carries both directions at once: messages
/// that leave a rank share it among themselves and with collectives, and so do messages that arrive. Throws UserError
/// on options out of range and where ranks that are told apart can't be paired for a message, std::logic_error if the
/// costs are of another graph or the number of plans isn't that of the classes, and RuntimeFault naming the tasks when
/// the plans can't be run to their end.
Simulation simulate(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
                    const cost::Machine& machine, const SimulationOptions& options);

}  // namespace weft::simulate
