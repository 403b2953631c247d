#include "runtime/simulate/joint_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "graph/grid.h"

namespace weft::simulate {
namespace {

using Classes = std::span<const std::shared_ptr<const graph::Graph>>;

/// The tasks of all classes as one graph, in which the halves of a message and the members of a collective of several
/// classes are one node.
class JointGraph {
 public:
  JointGraph(Classes classes, std::span<const cost::TaskCosts> costs) : classes_(classes) {
    for (std::size_t k = 0; k < classes.size(); ++k) {
      if (costs[k].ns.size() != classes[k]->tasks().size()) {
        throw std::logic_error(
            fmt::format("{} costs for {} tasks of stage {}", costs[k].ns.size(), classes[k]->tasks().size(), k));
      }
      node_of_.emplace_back(classes[k]->tasks().size());
      add_nodes(k, costs[k]);
    }
    add_edges();
    sort();
  }

  std::size_t node(std::size_t class_index, std::size_t task) const { return node_of_[class_index][task]; }
  double cost(std::size_t node) const { return cost_[node]; }

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
  /// Tasks of equal keys are one node.
  using Key = std::tuple<std::size_t, graph::Channel, std::int64_t, std::string_view>;

  void add_nodes(std::size_t class_index, const cost::TaskCosts& costs) {
    const graph::Graph& graph = *classes_[class_index];
    const auto stages = static_cast<std::int64_t>(classes_.size());
    for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
      const graph::Task& task = graph.tasks()[i];
      const auto stage = static_cast<std::int64_t>(class_index);
      if (const auto* send = std::get_if<graph::Send>(&task.operation)) {
        const std::size_t node = shared_node({class_index, send->channel, send->message, {}});
        cost_[node] = costs.ns[i];
        node_of_[class_index][i] = node;
      } else if (const auto* receive = std::get_if<graph::Receive>(&task.operation)) {
        const auto sender = static_cast<std::size_t>(graph::peer_stage(receive->channel, stage, stages));
        node_of_[class_index][i] = shared_node({sender, graph::other_end(receive->channel), receive->message, {}});
      } else {
        const graph::Channel* channel =
            graph::is_collective(task.operation) ? graph::channel_of(task.operation) : nullptr;
        const std::size_t members =
            channel == nullptr ? 0 : graph::classes_of_channel(*channel, classes_.size()).size();
        const std::size_t node = members < 2 ? new_node() : shared_node({0, *channel, -1, task.name});
        if (cost_[node] == 0) cost_[node] = costs.ns[i];  // the first member's, as in the simulator
        node_of_[class_index][i] = node;
      }
    }
  }
  std::size_t new_node() {
    cost_.push_back(0);
    return cost_.size() - 1;
  }
  std::size_t shared_node(const Key& key) {
    const auto found = shared_.find(key);
    return found != shared_.end() ? found->second : shared_.emplace(key, new_node()).first->second;
  }

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
    if (order_.size() != cost_.size())
      throw std::logic_error("the stages of a pipeline wait for each other in a circle");
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

  Classes classes_;
  std::vector<std::vector<std::size_t>> node_of_;  // by class and task
  std::vector<double> cost_;                       // by node
  std::map<Key, std::size_t> shared_;
  std::vector<std::vector<std::size_t>> after_;  // by node
  std::vector<std::size_t> order_;               // topological
};

std::vector<graph::CriticalPath> paths_in(const JointGraph& joint, Classes classes) {
  const JointGraph::Path path = joint.longest_path();
  std::vector<graph::CriticalPath> paths(classes.size());
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const std::size_t tasks = classes[k]->tasks().size();
    paths[k].length = path.length;
    for (std::size_t i = 0; i < tasks; ++i) {
      const std::size_t node = joint.node(k, i);
      paths[k].head.push_back(path.head[node]);
      paths[k].tail.push_back(path.tail[node]);
      if (path.on_path[node]) paths[k].tasks.emplace_back(i);
    }
    std::ranges::stable_sort(paths[k].tasks, {}, [&](graph::TaskId task) { return paths[k].head[task.index()]; });
  }
  return paths;
}

/// The costs of a class, in which a Receive occupies its channel and its link for its Send's time.
cost::TaskCosts with_receives(
    std::size_t class_index, Classes classes, std::span<const cost::TaskCosts> costs,
    const std::map<std::tuple<std::size_t, graph::Channel, std::int64_t>, std::size_t>& sends) {
  cost::TaskCosts own = costs[class_index];
  own.link_ns = own.on_link();
  const auto stages = static_cast<std::int64_t>(classes.size());
  for (std::size_t i = 0; i < own.ns.size(); ++i) {
    const auto* receive = std::get_if<graph::Receive>(&classes[class_index]->tasks()[i].operation);
    if (receive == nullptr) continue;
    const auto sender =
        static_cast<std::size_t>(graph::peer_stage(receive->channel, static_cast<std::int64_t>(class_index), stages));
    const auto send = sends.find({sender, graph::other_end(receive->channel), receive->message});
    if (send == sends.end()) continue;
    own.ns[i] = costs[sender].ns[send->second];
    own.link_ns[i] = costs[sender].on_link()[send->second];
  }
  return own;
}

void take_greatest(Bounds& of, const Bounds& other) {
  for (double Bounds::*const bound :
       {&Bounds::critical_path, &Bounds::work, &Bounds::one_machine, &Bounds::energy, &Bounds::contention})
    of.*bound = std::max(of.*bound, other.*bound);
}

}  // namespace

std::vector<graph::CriticalPath> joint_paths(Classes classes, std::span<const cost::TaskCosts> costs) {
  return paths_in(JointGraph(classes, costs), classes);
}

JointBounds joint_bounds(Classes classes, std::span<const cost::TaskCosts> costs, const cost::Machine& machine,
                         int compute_streams, const std::vector<int>& link_of_channel) {
  if (classes.size() != costs.size()) {
    throw std::logic_error(fmt::format("{} graphs and {} costs of a pipeline", classes.size(), costs.size()));
  }
  const std::vector<graph::CriticalPath> paths = joint_paths(classes, costs);
  std::map<std::tuple<std::size_t, graph::Channel, std::int64_t>, std::size_t> sends;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    for (std::size_t i = 0; i < classes[k]->tasks().size(); ++i) {
      const auto* send = std::get_if<graph::Send>(&classes[k]->tasks()[i].operation);
      if (send != nullptr) sends[{k, send->channel, send->message}] = i;
    }
  }
  // A link carries both directions at once, so that the messages of one share nothing with those of the other.
  const auto without = [&](std::initializer_list<graph::Channel> channels) {
    std::vector<int> links = link_of_channel;
    if (links.empty()) return links;
    int next = *std::ranges::max_element(links);
    for (const graph::Channel channel : channels) links.at(static_cast<std::size_t>(channel)) = ++next;
    return links;
  };
  const std::vector<int> leaving = without({graph::Channel::receive_previous, graph::Channel::receive_next}),
                         arriving = without({graph::Channel::send_next, graph::Channel::send_previous});
  JointBounds bounds;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const cost::TaskCosts own = with_receives(k, classes, costs, sends);
    Bounds stage = lower_bounds(*classes[k], own, machine, compute_streams, leaving, paths[k]);
    take_greatest(stage, lower_bounds(*classes[k], own, machine, compute_streams, arriving, paths[k]));
    take_greatest(bounds.step, stage);
    bounds.stages.push_back(stage);
  }
  return bounds;
}

}  // namespace weft::simulate
