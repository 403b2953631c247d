#include "runtime/policy/scheduling/makespan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "runtime/policy/scheduling/running_tasks.h"

namespace weft::policy {

Timetable timetable_of(const graph::Graph& graph, const plan::Order& order, std::span<const double> cost) {
  const std::size_t tasks = graph.tasks().size();
  Timetable table{std::vector<double>(tasks, 0), std::vector<double>(tasks, 0), 0};
  // The sources of added edges, grouped by target.
  std::vector<std::uint32_t> begin(tasks + 1, 0), sources;
  for (const graph::Edge& edge : order.added_edges) {
    if (edge.distance == 0) ++begin[edge.to.index() + 1];
  }
  for (std::size_t i = 0; i < tasks; ++i) begin[i + 1] += begin[i];
  sources.resize(begin[tasks]);
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (const graph::Edge& edge : order.added_edges) {
    if (edge.distance == 0) sources[next[edge.to.index()]++] = edge.from.value;
  }
  std::vector<double> free(order.streams.size(), 0);
  for (const plan::Placement& placement : order.sequence) {
    const std::size_t task = placement.task.index();
    double start = free[placement.stream.index()];
    for (const graph::Edge& edge : graph.in_edges(placement.task)) {
      if (edge.distance == 0) start = std::max(start, table.finish[edge.from.index()]);
    }
    for (std::uint32_t i = begin[task]; i < begin[task + 1]; ++i) start = std::max(start, table.finish[sources[i]]);
    table.start[task] = start;
    table.finish[task] = free[placement.stream.index()] = start + cost[task];
    table.makespan = std::max(table.makespan, table.finish[task]);
  }
  return table;
}

Timetable timetable_of(const graph::Graph& graph, const plan::Order& order, const cost::TaskCosts& costs,
                       const PolicyOptions& options) {
  const std::size_t tasks = graph.tasks().size(), streams = order.streams.size();
  Timetable table{std::vector<double>(tasks, 0), std::vector<double>(tasks, 0), 0};
  std::vector<std::uint32_t> begin(tasks + 1, 0), targets, missing(tasks, 0);
  const auto each_edge = [&](const auto& visit) {
    for (const graph::Edge& edge : graph.edges()) {
      if (edge.distance == 0) visit(edge);
    }
    for (const graph::Edge& edge : order.added_edges) {
      if (edge.distance == 0) visit(edge);
    }
  };
  each_edge([&](const graph::Edge& edge) { ++begin[edge.from.index() + 1], ++missing[edge.to.index()]; });
  for (std::size_t i = 0; i < tasks; ++i) begin[i + 1] += begin[i];
  targets.resize(begin[tasks]);
  std::vector<std::uint32_t> place(begin.begin(), begin.end() - 1);
  each_edge([&](const graph::Edge& edge) { targets[place[edge.from.index()]++] = edge.to.value; });
  std::vector<std::vector<std::uint32_t>> queues(streams);
  for (const plan::Placement& placement : order.sequence)
    queues[placement.stream.index()].push_back(placement.task.value);

  RunningTasks running(graph, costs, options, order.streams);
  std::vector<std::size_t> next(streams, 0);
  std::size_t done = 0;
  for (double now = 0; done < tasks;) {
    for (std::size_t s = 0; s < streams; ++s) {
      if (!running.idle(s) || next[s] == queues[s].size() || missing[queues[s][next[s]]] > 0) continue;
      const std::uint32_t task = queues[s][next[s]++];
      table.start[task] = now;
      running.start(s, task, now);
    }
    running.settle(now);
    now = running.next();
    if (now == std::numeric_limits<double>::infinity()) throw std::logic_error("an order deadlocks");
    for (std::size_t s = 0; s < streams; ++s) {
      if (running.idle(s) || running.finish(s) != now) continue;
      const std::uint32_t task = running.end(s);
      table.finish[task] = now;
      ++done;
      for (std::uint32_t i = begin[task]; i < begin[task + 1]; ++i) --missing[targets[i]];
    }
    table.makespan = now;
  }
  return table;
}

}  // namespace weft::policy
