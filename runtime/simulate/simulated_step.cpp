#include "runtime/simulate/simulated_step.h"

#include <fmt/format.h>

namespace weft::simulate {

SimulatedStep::SimulatedStep(const Report& report, std::size_t index)
    : of_class(index),
      plan(*report.classes[of_class].plan),
      graph(report.classes[of_class].graph()),
      costs(report.costs[of_class]),
      trace(report.step(of_class)),
      computing(plan::busy_times(plan, trace).compute) {
  begin_.resize(graph.tasks().size());
  end_.resize(graph.tasks().size());
  for (std::size_t i = 0; i < begin_.size(); ++i) {
    const plan::Position at = plan.position[i];
    const plan::TaskTime& time = trace.times[at.stream.index()][at.entry];
    begin_[i] = static_cast<double>(time.begin - trace.begin);
    end_[i] = static_cast<double>(time.end - trace.begin);
  }
  arrival_ = begin_;
  if (report.classes.size() == 1) return;
  const PlayedClasses played = report.played();
  for (std::size_t i = 0; i < begin_.size(); ++i) {
    if (!collective(graph::TaskId(i))) continue;
    begin_[i] = static_cast<double>(played.flight(of_class, plan.position[i]).begin - trace.begin);
  }
}

const plan::Reason& SimulatedStep::reason(graph::TaskId task) const {
  const plan::Position at = plan.position[task.index()];
  return plan.reasons[plan.streams[at.stream.index()].entries[at.entry].reason];
}

graph::TaskId SimulatedStep::before_on_stream(graph::TaskId task) const {
  const plan::Position at = plan.position[task.index()];
  if (at.entry == 0) return graph::TaskId();
  return plan.streams[at.stream.index()].entries[at.entry - 1].task;
}

graph::TaskId SimulatedStep::last_input(graph::TaskId task) const {
  graph::TaskId last;
  for (const graph::Edge& edge : graph.in_edges(task)) {
    if (edge.distance != 0 || edge.reason == graph::EdgeReason::recorded_order) continue;
    if (!last.valid() || end(edge.from) > end(last)) last = edge.from;
  }
  return last;
}

double SimulatedStep::ready(graph::TaskId task) const {
  const graph::TaskId last = last_input(task);
  return last.valid() ? end(last) : 0;
}

graph::Edge SimulatedStep::last_added(graph::TaskId task) const {
  graph::Edge last;
  const auto look_at = [&](const graph::Edge& edge) {
    if (edge.to != task || edge.distance != 0) return;
    if (plan.position[edge.from.index()].stream == plan.position[task.index()].stream) return;
    if (!last.from.valid() || end(edge.from) > end(last.from)) last = edge;
  };
  for (const graph::Edge& edge : plan.added_edges) look_at(edge);
  for (const graph::Edge& edge : graph.in_edges(task)) {
    if (edge.reason == graph::EdgeReason::recorded_order) look_at(edge);
  }
  return last;
}

std::string kind_of(const graph::Graph& graph, const graph::Task& task) {
  const graph::Channel* channel = graph::channel_of(task.operation);
  const std::string kind(graph::kind_name(task.operation));
  return channel == nullptr ? kind : fmt::format("{} on {}", kind, graph.channel_name(*channel));
}

std::vector<bool> descendants(const graph::Graph& graph, graph::TaskId task, Dependence by) {
  std::vector<bool> found(graph.tasks().size(), false);
  std::vector<graph::TaskId> open = {task};
  while (!open.empty()) {
    const graph::TaskId next = open.back();
    open.pop_back();
    for (const graph::Edge& edge : graph.out_edges(next)) {
      if (edge.distance != 0 || found[edge.to.index()]) continue;
      if (by == Dependence::data && edge.reason == graph::EdgeReason::recorded_order) continue;
      found[edge.to.index()] = true;
      open.push_back(edge.to);
    }
  }
  return found;
}

}  // namespace weft::simulate
