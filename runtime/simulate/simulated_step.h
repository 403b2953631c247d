// Access to one simulated step by task, for explanations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/simulate/report.h"

namespace weft::simulate {

/// Times of a trace are rounded to nanoseconds, so times that differ by less than this are equal.
inline constexpr double kTick = 2;

/// The step of one class. Times are nanoseconds since the step's begin. The report must outlive it.
class SimulatedStep {
 public:
  explicit SimulatedStep(const Report& report, std::size_t of_class = 0);

  /// Of a message or a collective of several classes: when the last of its members had arrived.
  double begin(graph::TaskId task) const { return begin_[task.index()]; }
  /// When the class itself was ready for the task.
  double arrival(graph::TaskId task) const { return arrival_[task.index()]; }
  double end(graph::TaskId task) const { return end_[task.index()]; }
  const std::string& name(graph::TaskId task) const { return graph.task(task).name; }
  bool collective(graph::TaskId task) const { return graph::is_collective(graph.task(task).operation); }
  /// The policy's reason for the task's position.
  const plan::Reason& reason(graph::TaskId task) const;
  graph::TaskId before_on_stream(graph::TaskId task) const;
  /// By the graph's own edges, the predecessor of `task` that ended last. Recorded order (EdgeReason::recorded_order)
  /// doesn't count: it says nothing about data.
  graph::TaskId last_input(graph::TaskId task) const;
  double ready(graph::TaskId task) const;
  /// Of the edges into `task` that the policy and the memory planner added, or that are recorded order, the one whose
  /// source ended last; its tasks are invalid if there is none. Edges from the task's own stream don't count, since the
  /// queue implies them.
  graph::Edge last_added(graph::TaskId task) const;

  const std::size_t of_class;
  const plan::Plan& plan;
  const graph::Graph& graph;
  const cost::TaskCosts& costs;
  const plan::StepTrace& trace;
  const Intervals computing;  // intervals in which a computation runs, on the trace's clock

 private:
  std::vector<double> arrival_, begin_, end_;
};

/// "gemm", "all_reduce on y".
std::string kind_of(const graph::Graph& graph, const graph::Task& task);

/// Which edges make a task depend on another.
enum class Dependence : std::uint8_t {
  any,   // all that hold
  data,  // without recorded order
};

/// By task: does it depend on `task`, directly or indirectly?
std::vector<bool> descendants(const graph::Graph& graph, graph::TaskId task, Dependence by = Dependence::any);

}  // namespace weft::simulate
