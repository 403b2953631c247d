#include "runtime/simulate/class_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <variant>

namespace weft::simulate {
namespace {

/// The tasks of all classes as one graph, in which the members of a meeting are one node.
class JoinedGraph {
 public:
  JoinedGraph(graph::Classes classes, const graph::Meetings& meetings, std::span<const cost::TaskCosts> costs)
      : classes_(classes) {
    std::vector<std::size_t> node_of_meeting(meetings.all().size(), kNone);
    for (std::size_t k = 0; k < classes.size(); ++k) {
      for (std::size_t i = 0; i < classes[k]->tasks().size(); ++i) {
        const std::uint32_t meeting = meetings.of(k, i);
        const bool alone = meeting == graph::Meetings::kNone;
        const std::size_t node = alone || node_of_meeting[meeting] == kNone ? cost_.size() : node_of_meeting[meeting];
        if (node == cost_.size()) cost_.push_back(0);
        if (!alone) node_of_meeting[meeting] = node;
        node_of_.resize(classes.size());
        node_of_[k].push_back(node);
        const bool receives = std::holds_alternative<graph::Receive>(classes[k]->tasks()[i].operation);
        if (cost_[node] == 0 && !receives) cost_[node] = costs[k].ns[i];
      }
    }
    add_edges();
    sort();
  }

  std::size_t node(std::size_t class_index, std::size_t task) const { return node_of_[class_index][task]; }

  /// Heads, tails and one longest path of nodes.
  struct Path {
    std::vector<double> head, tail;
    std::vector<bool> on_path;
    double length = 0;
  };
  Path longest_path() const {
    Path path;
    path.head.resize(cost_.size());
    path.tail.resize(cost_.size());
    path.on_path.resize(cost_.size());
    for (const std::size_t from : order_) {
      for (const std::size_t to : after_[from]) path.head[to] = std::max(path.head[to], path.head[from] + cost_[from]);
      path.length = std::max(path.length, path.head[from] + cost_[from]);
    }
    for (auto from = order_.rbegin(); from != order_.rend(); ++from) {
      for (const std::size_t to : after_[*from])
        path.tail[*from] = std::max(path.tail[*from], path.tail[to] + cost_[to]);
    }
    mark_path(path);
    return path;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  void add_edges() {
    after_.resize(cost_.size());
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      for (const graph::Edge& edge : classes_[k]->edges()) {
        if (edge.distance != 0 || edge.kind != graph::EdgeKind::completes_before) continue;
        after_[node(k, edge.from.index())].push_back(node(k, edge.to.index()));
      }
    }
  }

  void sort() {
    std::vector<std::size_t> before(cost_.size());
    for (const std::vector<std::size_t>& targets : after_) {
      for (const std::size_t to : targets) ++before[to];
    }
    for (std::size_t node = 0; node < cost_.size(); ++node) {
      if (before[node] == 0) order_.push_back(node);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (const std::size_t to : after_[order_[i]]) {
        if (--before[to] == 0) order_.push_back(to);
      }
    }
    if (order_.size() != cost_.size()) throw std::logic_error("the classes of a step wait for each other in a cycle");
  }

  void mark_path(Path& path) const {
    const auto critical = [&](std::size_t node) {
      return path.head[node] + cost_[node] + path.tail[node] >= path.length;
    };
    const auto first =
        std::ranges::find_if(order_, [&](std::size_t node) { return path.head[node] == 0 && critical(node); });
    for (std::size_t node = first == order_.end() ? cost_.size() : *first; node != cost_.size();) {
      path.on_path[node] = true;
      const double end = path.head[node] + cost_[node];
      const auto next = std::ranges::find_if(after_[node], [&](std::size_t to) {
        return path.head[to] == end && path.tail[to] + cost_[to] == path.tail[node];
      });
      node = next == after_[node].end() ? cost_.size() : *next;
    }
  }

  graph::Classes classes_;
  std::vector<std::vector<std::size_t>> node_of_;  // by class and task
  std::vector<double> cost_;                       // by node
  std::vector<std::vector<std::size_t>> after_;    // by node
  std::vector<std::size_t> order_;                 // topological
};

}  // namespace

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
  const JoinedGraph joined(classes, meetings, costs);
  const JoinedGraph::Path path = joined.longest_path();
  std::vector<graph::CriticalPath> paths(classes.size());
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const std::size_t tasks = classes[k]->tasks().size();
    paths[k].length = path.length;
    for (std::size_t i = 0; i < tasks; ++i) {
      const std::size_t node = joined.node(k, i);
      paths[k].head.push_back(path.head[node]);
      paths[k].tail.push_back(path.tail[node]);
      if (path.on_path[node]) paths[k].tasks.emplace_back(i);
    }
    std::ranges::stable_sort(paths[k].tasks, {}, [&](graph::TaskId task) { return paths[k].head[task.index()]; });
  }
  return paths;
}

}  // namespace weft::simulate
