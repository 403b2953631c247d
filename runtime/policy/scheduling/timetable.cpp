#include "runtime/policy/scheduling/timetable.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "runtime/policy/scheduling/running_lanes.h"

namespace weft::policy {

Timetable timetable_of(const ClassTasks& tasks, std::span<const plan::Order> orders, const PolicyOptions& options) {
  const std::size_t size = tasks.size(), lanes = tasks.lanes().size();
  Timetable table{std::vector<double>(size, 0), std::vector<double>(size, 0), 0};
  std::vector<std::uint32_t> begin(size + 1, 0), targets, missing(size, 0);
  const auto each_edge = [&](const auto& visit) {
    for (std::uint32_t node = 0; node < size; ++node) {
      if (tasks.is_node(node)) tasks.each_after(node, [&](std::uint32_t after) { visit(node, after); });
    }
    for (std::size_t k = 0; k < tasks.classes(); ++k) {
      for (const graph::Edge& edge : orders[k].added_edges) {
        if (edge.distance != 0) continue;
        visit(tasks.node_of(tasks.first(k) + edge.from.value), tasks.node_of(tasks.first(k) + edge.to.value));
      }
    }
  };
  each_edge([&](std::uint32_t from, std::uint32_t to) { ++begin[from + 1], ++missing[to]; });
  for (std::size_t i = 0; i < size; ++i) begin[i + 1] += begin[i];
  targets.resize(begin[size]);
  std::vector<std::uint32_t> place(begin.begin(), begin.end() - 1);
  each_edge([&](std::uint32_t from, std::uint32_t to) { targets[place[from]++] = to; });
  std::vector<std::vector<std::uint32_t>> queues(lanes);
  std::size_t left = 0;
  for (std::size_t k = 0; k < tasks.classes(); ++k) {
    for (const plan::Placement& placement : orders[k].sequence) {
      const std::uint32_t number = tasks.first(k) + placement.task.value;
      if (!tasks.is_node(number)) continue;
      queues[tasks.lane_of(k, placement.stream)].push_back(number);
      ++left;
    }
  }
  RunningLanes running(tasks, options);
  std::vector<std::size_t> next(lanes, 0);
  while (left > 0) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (!running.idle(lane) || next[lane] == queues[lane].size() || missing[queues[lane][next[lane]]] > 0) continue;
      const std::uint32_t node = queues[lane][next[lane]++];
      table.start[node] = running.now();
      running.start(lane, node);
    }
    running.settle();
    if (running.next() == RunningLanes::kNever) throw std::logic_error("an order deadlocks");
    running.end_next([&](std::size_t, std::uint32_t node) {
      table.finish[node] = running.now();
      --left;
      for (std::uint32_t i = begin[node]; i < begin[node + 1]; ++i) --missing[targets[i]];
    });
  }
  table.makespan = running.now();
  for (std::uint32_t number = 0; number < size; ++number) {
    table.start[number] = table.start[tasks.node_of(number)];
    table.finish[number] = table.finish[tasks.node_of(number)];
  }
  return table;
}

Timetable timetable_of(graph::Classes classes, std::span<const plan::Order> orders,
                       std::span<const cost::TaskCosts> costs, const PolicyOptions& options) {
  return timetable_of(ClassTasks(classes, costs, orders), orders, options);
}

}  // namespace weft::policy
