// Steps of several ranks played again from nothing but their tasks' lengths, edges and meetings: does that explain how
// long they took?
#pragma once

#include <vector>

#include "graph/open_graph.h"
#include "graph/open_meetings.h"

namespace weft::inspect {

/// The rank that came last waited for nobody, so the shortest of the recorded times is the collective's own.
void set_net_times(graph::OpenGraph& graph, const graph::OpenMeetings& meetings);

/// How much later the clock of each class shows the ends of shared collectives than the first class's, as a median; 0
/// without any. Since a collective ends at about the same time on all ranks, differences of begins follow.
std::vector<double> clock_offsets(const graph::OpenGraph& graph, const graph::OpenMeetings& meetings);

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
/// when each class begins, by index; empty: all at 0. Meetings that can't take place are left out
/// (graph::drop_impossible()).
std::vector<ReplayedClass> replay_steps(const graph::OpenGraph& graph, graph::OpenMeetings meetings = {},
                                        const std::vector<double>& starts = {});

}  // namespace weft::inspect
