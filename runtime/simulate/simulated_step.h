// One simulated step, by task: what explanations read off it.
#pragma once

#include <string>
#include <vector>

#include "runtime/simulate/plan_report.h"

namespace weft {

/// Times of a trace are whole nanoseconds: what differs by less is equal.
inline constexpr double kTick = 2;

/// Times are nanoseconds since the step's begin. The report must outlive it.
class SimulatedStep {
 public:
  explicit SimulatedStep(const PlanReport& report);

  double begin(TaskId task) const { return begin_[task.index()]; }
  double end(TaskId task) const { return end_[task.index()]; }
  const std::string& name(TaskId task) const { return graph.task(task).name; }
  bool collective(TaskId task) const { return is_collective(graph.task(task).operation); }
  /// Why the policy gave the task its place.
  const Reason& reason(TaskId task) const;
  TaskId before_on_stream(TaskId task) const;
  /// The task whose results `task` had to wait for longest, of the graph's own edges.
  TaskId last_input(TaskId task) const;
  double ready(TaskId task) const;
  /// The last of the edges into `task` that policy and memory planner added to be satisfied; none if it is invalid.
  /// Those from its own stream say no more than the queue does.
  Edge last_added(TaskId task) const;

  const Plan& plan;
  const Graph& graph;
  const TaskCosts& costs;
  const StepTrace& trace;
  const Intervals computing;  // when any computation runs, in the trace's time

 private:
  std::vector<double> begin_, end_;
};

/// "gemm", "all_reduce on y".
std::string kind_of(const Task& task);

/// By task: does it need the results of `task`, directly or not?
std::vector<bool> descendants(const Graph& graph, TaskId task);

}  // namespace weft
