// The tasks of all rank classes of a step as one list, with the lanes on which they run, for schedulers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/meetings.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"

namespace weft::policy {

/// The edges that paths go along: all within a step, or those alone whose target waits for the source's end.
enum class PathEdges : std::uint8_t { all, completing };

/// A class's tasks are numbered from first(class) on, in program order. Tasks that start together (graph/meetings.h)
/// are one *node*, which has the number of its first member; any other task is a node by itself. With a single class,
/// tasks, nodes and numbers coincide.
///
/// A lane runs one node at a time: a compute stream of a class, a channel of a class, or a channel whose nodes have
/// members in several classes, such as the two ends of a message. With a single class, lanes are streams.
///
/// The graphs must outlive the object.
class ClassTasks {
 public:
  ClassTasks(graph::Classes classes, std::span<const cost::TaskCosts> costs, int compute_streams);
  /// With the streams of each class's order.
  ClassTasks(graph::Classes classes, std::span<const cost::TaskCosts> costs, std::span<const plan::Order> orders);

  std::size_t classes() const { return graphs_.size(); }
  /// The number of tasks of all classes.
  std::size_t size() const { return node_of_.size(); }
  const graph::Graph& graph(std::size_t rank) const { return *graphs_[rank]; }
  std::span<const plan::Stream> streams(std::size_t rank) const { return streams_[rank]; }
  std::uint32_t first(std::size_t rank) const { return first_[rank]; }
  std::uint32_t rank_of(std::uint32_t number) const { return members_[number].of_class; }
  const graph::Task& task(std::uint32_t number) const {
    return graphs_[members_[number].of_class]->tasks()[members_[number].task];
  }
  std::uint32_t node_of(std::uint32_t number) const { return node_of_[number]; }
  bool is_node(std::uint32_t number) const { return node_of_[number] == number; }
  std::span<const graph::ClassTask> members(std::uint32_t node) const {
    if (steps_.all().empty()) return {&members_[node], 1};
    const std::uint32_t step = steps_.of(members_[node].of_class, members_[node].task);
    return step == graph::Meetings::kNone ? std::span(&members_[node], 1) : std::span(steps_.all()[step].members);
  }

  /// The costs by class, in which all members of a node have its first one's time, on their links too.
  std::span<const cost::TaskCosts> costs() const { return costs_; }
  double cost(std::uint32_t node) const { return costs_[members_[node].of_class].ns[members_[node].task]; }
  /// By number.
  std::vector<double> all_costs() const;

  struct Lane {
    bool compute = true;
    std::uint32_t resource = 0;  // the first of the lanes that take the same nodes
    plan::StreamId stream = {};  // of a compute lane
    std::vector<std::uint32_t> classes;
  };
  std::span<const Lane> lanes() const { return lanes_; }
  /// The first lane that may run a node.
  std::uint32_t resource_of(std::uint32_t node) const { return resource_[node]; }
  std::uint32_t lane_of(std::size_t rank, plan::StreamId stream) const { return lane_of_stream_[rank][stream.index()]; }
  /// The stream of a node's member on a lane.
  std::size_t stream_on(std::size_t lane, const graph::ClassTask& member) const {
    const Lane& at = lanes_[lane];
    return (at.compute ? at.stream : channel_stream_[first_[member.of_class] + member.task]).index();
  }

  /// Calls visit(node) for each edge within a step out of a node, or into it.
  template <class F>
  void each_after(std::uint32_t node, F&& visit) const {
    each_after(node, PathEdges::all, visit);
  }
  template <class F>
  void each_after(std::uint32_t node, PathEdges edges, F&& visit) const {
    for (const graph::ClassTask& member : members(node)) {
      const graph::Graph& graph = *graphs_[member.of_class];
      for (const graph::Edge& edge : graph.out_edges(graph::TaskId(std::size_t{member.task}))) {
        if (edge.distance != 0) continue;
        if (edges == PathEdges::completing && edge.kind != graph::EdgeKind::completes_before) continue;
        visit(node_of_[first_[member.of_class] + edge.to.value]);
      }
    }
    if (!next_.empty() && next_[node] != graph::Meetings::kNone) visit(next_[node]);
  }
  template <class F>
  void each_before(std::uint32_t node, F&& visit) const {
    for (const graph::ClassTask& member : members(node)) {
      for (const graph::Edge& edge : graphs_[member.of_class]->in_edges(graph::TaskId(std::size_t{member.task}))) {
        if (edge.distance == 0) visit(node_of_[first_[member.of_class] + edge.from.value]);
      }
    }
    if (!previous_.empty() && previous_[node] != graph::Meetings::kNone) visit(previous_[node]);
  }

  /// NodeEdges::topological_order() of the nodes by the edges within a step.
  std::vector<std::uint32_t> topological_order() const;

 private:
  ClassTasks(graph::Classes classes, std::span<const cost::TaskCosts> costs,
             std::vector<std::vector<plan::Stream>> streams);
  void join_steps();
  void make_lanes();

  std::vector<const graph::Graph*> graphs_;
  std::vector<cost::TaskCosts> costs_;
  graph::Meetings steps_;
  std::vector<std::uint32_t> first_;
  std::vector<graph::ClassTask> members_;           // by number
  std::vector<std::uint32_t> node_of_, resource_;   // by number
  std::vector<std::uint32_t> next_, previous_;      // by node, on a shared channel; empty with one class
  std::vector<plan::StreamId> channel_stream_;      // by number; invalid for computations
  std::vector<std::vector<plan::Stream>> streams_;  // by class
  std::vector<Lane> lanes_;
  std::vector<std::vector<std::uint32_t>> lane_of_stream_;  // by class
};

/// (from, to): nodes.
using NodeEdge = std::pair<std::uint32_t, std::uint32_t>;

/// The graphs' edges within a step, in the order of their sources, and after them the edges that the orders add.
std::vector<NodeEdge> edges_of(const ClassTasks& tasks, std::span<const plan::Order> orders = {});

/// Edges by their sources, in the order in which they were given.
class NodeEdges {
 public:
  NodeEdges() = default;
  NodeEdges(std::size_t nodes, std::span<const NodeEdge> edges);
  std::span<const std::uint32_t> after(std::size_t node) const {
    return std::span(targets_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
  }
  /// By node: the number of edges into it.
  const std::vector<std::uint32_t>& missing() const { return missing_; }
  /// All nodes, so that edges go forward. Throws std::logic_error if there is a cycle.
  std::vector<std::uint32_t> topological_order() const;

 private:
  std::vector<std::uint32_t> begin_, targets_, missing_;
};

/// By number: a node's cost + the longest path after it, through all classes (the upward rank); members have their
/// node's. With several classes, the computations of a pass of a micro-batch through a stage that the next stage waits
/// for all have the first one's: else the first layer of all micro-batches would come before any one's second, and no
/// message would leave.
std::vector<double> upward_rank(const ClassTasks& tasks, PathEdges edges = PathEdges::completing);

}  // namespace weft::policy
