// Lower bounds on the time of a step: what no policy can beat on one graph.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "runtime/costs.h"
#include "runtime/machine.h"

namespace weft {

/// All in nanoseconds. They use data edges alone, so they hold for every order, and costs without contention, which
/// only lengthens.
struct Bounds {
  double critical_path = 0;  // LB1: max of head + cost + tail
  double work = 0;           // LB2: max over resources of their tasks' time
  double one_machine = 0;    // LB3: max over resources of the preemptive optimum with heads and tails (Carlier 1982)
  double energy = 0;         // LB4: Σ cost · use / capacity, of the cores that computations and transport share
  double best() const;
};

/// `link_of_channel` as for the simulator: channels of one link are one resource. With several compute streams the
/// computations are a resource of that capacity.
Bounds lower_bounds(const Graph& graph, const TaskCosts& costs, const Machine& machine, int compute_streams,
                    const std::vector<int>& link_of_channel);

}  // namespace weft
