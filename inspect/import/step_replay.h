// Steps of several ranks played again from nothing but their tasks' lengths, edges and meetings: does that explain how
// long they took, and how long would they take if some tasks took another time?
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/open_graph.h"
#include "graph/open_meetings.h"

namespace weft::inspect {

/// The time that a collective takes by itself: from when the last rank came to its end, as a mean over the ranks. A
/// rank that has what it needs may be done before the others, and a thread that was kept waiting for a core is late, so
/// no rank alone tells it. `clocks`: as clock_offsets() has them. Without recorded begins and ends the shortest time
/// counts.
void set_net_times(graph::OpenGraph& graph, const graph::OpenMeetings& meetings, const std::vector<double>& clocks);

/// How much later the clock of each class shows the ends of shared collectives than the first class's, as a median; of
/// a class that meets the first one only over others, the sum along these; 0 without any. Since a collective ends at
/// about the same time on all ranks, differences of begins follow.
std::vector<double> clock_offsets(const graph::OpenGraph& graph, const graph::OpenMeetings& meetings);

/// Where the length of a step comes from: nanoseconds on the chain of tasks and delays that it can't be shorter than.
struct ReplayedPath {
  double host = 0;  // calls of CPU threads, their time between calls, and the way of a launch to the device
  double computing = 0, communicating = 0, copying = 0;
  double waiting_for_ranks = 0;               // until the last member of a collective came
  std::vector<double> waiting_by_class = {};  // the same, by the class that came last
};

/// Of one class, in nanoseconds on the clock that all classes share.
struct ReplayedClass {
  double begin = 0, end = 0;
  ReplayedPath path = {};
  std::vector<double> begins = {};  // by task
  double length() const { return end - begin; }
};

/// The time that each task takes alone, in nanoseconds: of the first class, then of the next.
std::vector<double> recorded_lengths(const graph::OpenGraph& graph);

/// Tasks of all classes under one number each. Each task begins as soon as its edges allow; tasks that meet begin
/// together, when the last one is ready. All classes begin at 0: in a class that began later, a task of the operation
/// graph::kLaterStart comes first. Meetings that can't take place are left out (graph::drop_impossible()).
class StepReplay {
 public:
  /// The graph must outlive it.
  explicit StepReplay(const graph::OpenGraph& graph, graph::OpenMeetings meetings = {});
  /// By class.
  std::vector<ReplayedClass> run(std::vector<double> lengths);

 private:
  static constexpr std::uint32_t kNoTask = UINT32_MAX;
  struct OutEdge {
    std::uint32_t to;
    bool by_begin;        // of its task, rather than by its end
    std::uint32_t delay;  // the number of its delay after that; kNoTask: none
    double delay_ns;
  };
  /// What made a task ready.
  struct Cause {
    std::uint32_t task = kNoTask;
    bool by_begin = false;
  };
  struct Replayed {
    std::uint32_t waits_for = 1;  // edges, and the begin of its class
    double ready = 0, begin = 0;
    Cause cause = {};
  };
  class Play;

  std::uint32_t number(const graph::ClassTask& task) const { return first_[task.of_class] + task.task; }
  void index_edges();
  ReplayedClass class_of(std::size_t of_class) const;
  ReplayedPath path_to(std::size_t of_class, std::uint32_t last) const;

  const graph::OpenGraph& graph_;
  graph::OpenMeetings meetings_;
  std::vector<std::uint32_t> first_;     // number of each class's first task
  std::vector<std::uint32_t> meeting_;   // by task; kNoTask: none
  std::vector<std::uint32_t> edges_of_;  // by task: the place of its first one
  std::vector<OutEdge> edges_;
  std::vector<std::uint32_t> waits_for_;                         // by task
  std::vector<std::pair<std::uint32_t, std::uint32_t>> delays_;  // the tasks of each one's edge
  // Of the last run:
  std::vector<double> lengths_;
  std::vector<Replayed> tasks_;
};

/// A single run with recorded lengths.
std::vector<ReplayedClass> replay_steps(const graph::OpenGraph& graph, graph::OpenMeetings meetings = {});

/// The length of the whole step: until the last class is done.
double step_length(const std::vector<ReplayedClass>& classes);

}  // namespace weft::inspect
