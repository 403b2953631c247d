#include "runtime/simulate/simulated_step.h"

#include <fmt/format.h>

namespace weft {

SimulatedStep::SimulatedStep(const PlanReport& report)
    : plan(*report.plan),
      graph(*report.plan->graph),
      costs(report.costs),
      trace(report.step()),
      computing(busy_times(plan, trace).compute) {
  begin_.resize(graph.tasks().size());
  end_.resize(graph.tasks().size());
  for (std::size_t i = 0; i < begin_.size(); ++i) {
    const Position at = plan.position[i];
    const TaskTime& time = trace.times[at.stream.index()][at.entry];
    begin_[i] = static_cast<double>(time.begin - trace.begin);
    end_[i] = static_cast<double>(time.end - trace.begin);
  }
}

const Reason& SimulatedStep::reason(TaskId task) const {
  const Position at = plan.position[task.index()];
  return plan.reasons[plan.streams[at.stream.index()].entries[at.entry].reason];
}

TaskId SimulatedStep::before_on_stream(TaskId task) const {
  const Position at = plan.position[task.index()];
  if (at.entry == 0) return TaskId();
  return plan.streams[at.stream.index()].entries[at.entry - 1].task;
}

TaskId SimulatedStep::last_input(TaskId task) const {
  TaskId last;
  for (const Edge& edge : graph.in_edges(task)) {
    if (edge.distance == 0 && (!last.valid() || end(edge.from) > end(last))) last = edge.from;
  }
  return last;
}

double SimulatedStep::ready(TaskId task) const {
  const TaskId last = last_input(task);
  return last.valid() ? end(last) : 0;
}

Edge SimulatedStep::last_added(TaskId task) const {
  Edge last;
  for (const Edge& edge : plan.added_edges) {
    if (edge.to != task || edge.distance != 0) continue;
    if (plan.position[edge.from.index()].stream == plan.position[task.index()].stream) continue;
    if (!last.from.valid() || end(edge.from) > end(last.from)) last = edge;
  }
  return last;
}

std::string kind_of(const Task& task) {
  const Channel* channel = channel_of(task.operation);
  const std::string kind(kind_name(task.operation));
  return channel == nullptr ? kind : fmt::format("{} on {}", kind, to_string(*channel));
}

std::vector<bool> descendants(const Graph& graph, TaskId task) {
  std::vector<bool> found(graph.tasks().size(), false);
  std::vector<TaskId> open = {task};
  while (!open.empty()) {
    const TaskId next = open.back();
    open.pop_back();
    for (const std::uint32_t index : graph.out_edges(next)) {
      const Edge& edge = graph.edges()[index];
      if (edge.distance != 0 || found[edge.to.index()]) continue;
      found[edge.to.index()] = true;
      open.push_back(edge.to);
    }
  }
  return found;
}

}  // namespace weft
