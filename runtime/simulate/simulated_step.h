// One simulated step, by task: what explanations read off it.
#pragma once

#include <string>
#include <vector>

#include "runtime/simulate/plan_report.h"

namespace weft::simulate {

/// Times of a trace are whole nanoseconds: what differs by less is equal.
inline constexpr double kTick = 2;

/// Times are nanoseconds since the step's begin. The report must outlive it.
class SimulatedStep {
 public:
  explicit SimulatedStep(const PlanReport& report);

  double begin(graph::TaskId task) const { return begin_[task.index()]; }
  double end(graph::TaskId task) const { return end_[task.index()]; }
  const std::string& name(graph::TaskId task) const { return graph.task(task).name; }
  bool collective(graph::TaskId task) const { return graph::is_collective(graph.task(task).operation); }
  /// Why the policy gave the task its place.
  const plan::Reason& reason(graph::TaskId task) const;
  graph::TaskId before_on_stream(graph::TaskId task) const;
  /// The task whose results `task` had to wait for longest, of the graph's own edges.
  graph::TaskId last_input(graph::TaskId task) const;
  double ready(graph::TaskId task) const;
  /// The last of the edges into `task` that policy and memory planner added to be satisfied; none if it is invalid.
  /// Those from its own stream say no more than the queue does.
  graph::Edge last_added(graph::TaskId task) const;

  const plan::Plan& plan;
  const graph::Graph& graph;
  const cost::TaskCosts& costs;
  const plan::StepTrace& trace;
  const Intervals computing;  // when any computation runs, in the trace's time

 private:
  std::vector<double> begin_, end_;
};

/// "gemm", "all_reduce on y".
std::string kind_of(const graph::Task& task);

/// By task: does it need the results of `task`, directly or not?
std::vector<bool> descendants(const graph::Graph& graph, graph::TaskId task);

}  // namespace weft::simulate
