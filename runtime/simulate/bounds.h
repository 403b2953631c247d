// Lower bounds on the time of a step under any orders of its rank classes.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"

namespace weft::simulate {

/// All in nanoseconds. They use the graphs' own edges alone, anti-dependencies on one tensor included (an update in
/// place is part of the mathematics), and no edges of a policy or a memory plan, so they hold for every order of the
/// graphs. They bound the steps of simulate() without noise. All but `contention` also hold without contention, which
/// only lengthens a step.
struct Bounds {
  double critical_path = 0;  // LB1: max of head + cost + tail
  double work = 0;           // LB2: max over resources of their tasks' time
  double one_machine = 0;    // LB3: max over resources of the preemptive optimum with heads and tails (Carlier 1982);
                             // never below LB1 and LB2
  double energy = 0;  // LB4: Σ cost · use / capacity, of the cores that computations and transport share; 0 where
                      // they share none
  /// LB5: Σ cost of the computations + Σ cost·(1 − 1/slowdown) of a channel's collectives, the greatest over channels
  /// and links (a link's cost is link_ns): for as long as a link is busy, computations go at 1/slowdown at best, the
  /// least that the machine has for the collective and any computation of the graph. 0 where nothing is slowed down.
  double contention = 0;
  /// LB6: of windows of the step, after heads and tails were raised (certify/certificate.h); never below the others by
  /// more than rounding. 0 where prove_windows() (certify/window_bounds.h) wasn't called: it takes longer.
  double windows = 0;
  double best() const;
};

/// The greatest over all classes of the bounds that a class's resources give on the whole step. Resources of a class
/// are its computations, of which `compute_streams` run at a time; each channel, whose collectives run one at a time;
/// and each link, for the time that bytes occupy it (TaskCosts::link_ns). `link_of_channel` is that of the simulator:
/// channels with equal numbers share a link; empty: each channel has a link of its own. Messages in one direction
/// of a link share nothing with messages in the other; a Receive occupies its channel and its link for its Send's time.
/// k streams count as one that is k times as fast, a relaxation whose bound is max over S of min head(S) + Σ cost(S)/k
/// + min tail(S). Throws std::logic_error if the costs are of other graphs.
///
/// Proof, for several classes. Whatever the orders, a task starts after its head and ends at least its tail before the
/// step does (heads and tails of critical_paths()): induction over edges, where the members of a meeting begin and end
/// together. So a resource that serves a set S of tasks one at a time needs min head(S) + Σ cost(S) + min tail(S). Of
/// the last of p stages, with work F forward and B backward on each of m micro-batches, that is the warm-up (p − 1)F,
/// the work m(F + B) and the tail (p − 1)B. Gradients of weights that are tasks of their own can fill the tail, so that
/// the warm-up alone remains.
Bounds lower_bounds(graph::Classes classes, std::span<const cost::TaskCosts> costs, const cost::Machine& machine,
                    int compute_streams, const std::vector<int>& link_of_channel);

}  // namespace weft::simulate
