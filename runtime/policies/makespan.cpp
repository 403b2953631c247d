#include "runtime/policies/makespan.h"

#include <algorithm>
#include <cstdint>

namespace weft {

Timetable timetable_of(const Graph& graph, const Order& order, std::span<const double> cost) {
  const std::size_t tasks = graph.tasks().size();
  Timetable table{std::vector<double>(tasks, 0), std::vector<double>(tasks, 0), 0};
  // The sources of added edges, grouped by target.
  std::vector<std::uint32_t> begin(tasks + 1, 0), sources;
  for (const Edge& edge : order.added_edges) {
    if (edge.distance == 0) ++begin[edge.to.index() + 1];
  }
  for (std::size_t i = 0; i < tasks; ++i) begin[i + 1] += begin[i];
  sources.resize(begin[tasks]);
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (const Edge& edge : order.added_edges) {
    if (edge.distance == 0) sources[next[edge.to.index()]++] = edge.from.value;
  }
  std::vector<double> free(order.streams.size(), 0);
  for (const Placement& placement : order.sequence) {
    const std::size_t task = placement.task.index();
    double start = free[placement.stream.index()];
    for (const Edge& edge : graph.in_edges(placement.task)) {
      if (edge.distance == 0) start = std::max(start, table.finish[edge.from.index()]);
    }
    for (std::uint32_t i = begin[task]; i < begin[task + 1]; ++i) start = std::max(start, table.finish[sources[i]]);
    table.start[task] = start;
    table.finish[task] = free[placement.stream.index()] = start + cost[task];
    table.makespan = std::max(table.makespan, table.finish[task]);
  }
  return table;
}

}  // namespace weft
