// Lower bounds on the time of a step under any order of one graph.
#pragma once

#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"

namespace weft::simulate {

/// All in nanoseconds. They use the graph's own edges alone, anti-dependencies on one tensor included (an update in
/// place is part of the mathematics), and no edges of a policy or a memory plan, so they hold for every order of the
/// graph. They bound the steps of simulate() without noise. All but `contention` also hold without contention, which
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

/// Resources are the computations, of which `compute_streams` run at a time; each channel, whose collectives run one at
/// a time; and each link, for the time that bytes occupy it (TaskCosts::link_ns). `link_of_channel` is that of the
/// simulator: channels with equal numbers share a link; empty: each channel has a link of its own. k streams
/// count as one that is k times as fast, a relaxation whose bound is max over S of min head(S) + Σ cost(S)/k + min
/// tail(S). Throws std::logic_error if the costs are of another graph.
Bounds lower_bounds(const graph::Graph& graph, const cost::TaskCosts& costs, const cost::Machine& machine,
                    int compute_streams, const std::vector<int>& link_of_channel);

/// The same with heads, tails and length of a longest path that goes through other graphs, too
/// (runtime/simulate/joint_bounds.h).
Bounds lower_bounds(const graph::Graph& graph, const cost::TaskCosts& costs, const cost::Machine& machine,
                    int compute_streams, const std::vector<int>& link_of_channel, const graph::CriticalPath& path);

}  // namespace weft::simulate
