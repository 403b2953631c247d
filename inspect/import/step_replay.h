// A step played again from nothing but its tasks' lengths and its edges: does that explain how long it took?
#pragma once

#include <cstdint>
#include <vector>

#include "graph/open_graph.h"
#include "inspect/import/collective_match.h"

namespace weft::inspect {

/// Where the length of a step comes from: nanoseconds on the chain of tasks and delays that it can't be shorter than.
struct ReplayedPath {
  double host = 0;  // calls of CPU threads, their time between calls, and the way of a launch to the device
  double computing = 0, communicating = 0, copying = 0;
  double waiting_for_ranks = 0;  // until the last member of a collective came
};

/// Of one class, in nanoseconds on the clock of `starts`.
struct ReplayedClass {
  double begin = 0, end = 0;
  ReplayedPath path = {};
  double length() const { return end - begin; }
};

/// Each task begins as soon as its edges allow; tasks that meet begin together, when the last one is ready. `starts`:
/// when each class begins, by index; empty: all at 0. Meetings that could never take place, since ranks reach them in
/// contrary orders, are given up in the order of the first class.
std::vector<ReplayedClass> replay_steps(const graph::OpenGraph& graph, const MatchedCollectives& matched,
                                        const std::vector<double>& starts = {});

}  // namespace weft::inspect
