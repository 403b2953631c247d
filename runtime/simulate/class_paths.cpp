#include "runtime/simulate/class_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <variant>

#include "runtime/policy/scheduling/class_tasks.h"

namespace weft::simulate {

std::vector<graph::CriticalPath> critical_paths(graph::Classes classes, const graph::Meetings& meetings,
                                                std::span<const cost::TaskCosts> costs) {
  if (classes.size() != costs.size()) {
    throw std::logic_error(fmt::format("{} graphs and {} costs of a step", classes.size(), costs.size()));
  }
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (costs[k].ns.size() == classes[k]->tasks().size()) continue;
    throw std::logic_error(
        fmt::format("{} costs for {} tasks of class {}", costs[k].ns.size(), classes[k]->tasks().size(), k));
  }
  if (classes.size() == 1) return {graph::critical_path(*classes.front(), costs.front().ns)};
  // A node for each task; the first member of a meeting stands for all.
  std::vector<std::uint32_t> first_of = {0};  // by class: its first task
  for (const auto& graph : classes)
    first_of.push_back(first_of.back() + static_cast<std::uint32_t>(graph->tasks().size()));
  std::vector<std::uint32_t> node_of(first_of.back());
  std::iota(node_of.begin(), node_of.end(), 0);
  for (const graph::Meeting& meeting : meetings.all()) {
    const graph::ClassTask& lead = meeting.members.front();
    for (const graph::ClassTask& member : meeting.members)
      node_of[first_of[member.of_class] + member.task] = first_of[lead.of_class] + lead.task;
  }
  std::vector<double> cost(node_of.size(), 0), head(node_of.size(), 0), tail(node_of.size(), 0);
  std::vector<policy::NodeEdge> edges;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    for (std::size_t i = 0; i < costs[k].ns.size(); ++i) {
      double& of_node = cost[node_of[first_of[k] + i]];
      const bool receives = std::holds_alternative<graph::Receive>(classes[k]->tasks()[i].operation);
      if (of_node == 0 && !receives) of_node = costs[k].ns[i];
    }
    for (const graph::Edge& edge : classes[k]->edges()) {
      if (edge.distance != 0 || edge.kind != graph::EdgeKind::completes_before) continue;
      edges.emplace_back(node_of[first_of[k] + edge.from.index()], node_of[first_of[k] + edge.to.index()]);
    }
  }
  const policy::NodeEdges forward(node_of.size(), edges);
  const std::vector<std::uint32_t> order = forward.topological_order();
  double length = 0;
  for (const std::uint32_t from : order) {
    const double end = head[from] + cost[from];
    for (const std::uint32_t to : forward.after(from)) head[to] = std::max(head[to], end);
    length = std::max(length, end);
  }
  for (const std::uint32_t from : std::views::reverse(order)) {
    for (const std::uint32_t to : forward.after(from)) tail[from] = std::max(tail[from], tail[to] + cost[to]);
  }
  std::vector<graph::CriticalPath> paths(classes.size());
  for (std::size_t k = 0; k < classes.size(); ++k) {
    paths[k].length = length;
    for (std::uint32_t task = first_of[k]; task < first_of[k + 1]; ++task) {
      paths[k].head.push_back(head[node_of[task]]);
      paths[k].tail.push_back(tail[node_of[task]]);
    }
  }
  return paths;
}

}  // namespace weft::simulate
