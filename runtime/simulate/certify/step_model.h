// A step as the proofs of bounds see it: nodes that are joined by edges, and the resources that serve them. It is made
// of an open graph, since a checker that isn't part of Weft reads the same file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/open_graph.h"
#include "runtime/policy/scheduling/class_tasks.h"

namespace weft::simulate {

/// What serves tasks of one class, one at a time. `computations`: k streams count as one that is k times as fast.
/// `link_out` and `link_in` are the directions of a link where the classes send messages to each other; else the whole
/// link is `link`. `cores`: of the transport, which computations share; it serves several collectives at once, each
/// with a part of the cores. `task`: a task by itself, the resource of a longest path.
enum class ResourceKind : std::uint8_t { computations, channel, link, link_out, link_in, local, cores, task };

std::string_view to_string(ResourceKind kind);

/// A resource by its name: `number` is the channel, a channel that uses the link, the local stream, or the task.
struct ResourceName {
  std::uint32_t class_index = 0;
  ResourceKind kind = ResourceKind::computations;
  std::int32_t number = -1;
  friend auto operator<=>(const ResourceName&, const ResourceName&) = default;
};

/// A node's use of a resource.
struct ResourceItem {
  std::uint32_t node = 0;
  double ns = 0;    // for which it occupies the resource, alone
  double loss = 0;  // of computations' speed while it does, from 0 to 1
};

struct StepResource {
  ResourceName name;
  std::vector<ResourceItem> items;
};

/// The halves of a message are one node, and so are the members of a collective of several classes.
class StepModel {
 public:
  /// The graph's edges are all listed (simulate::open_graph_of). Throws std::logic_error if its classes wait for each
  /// other in a cycle.
  explicit StepModel(const graph::OpenGraph& open);

  std::size_t nodes() const { return cost_.size(); }
  double cost(std::uint32_t node) const { return cost_[node]; }
  std::uint32_t node_of(std::size_t class_index, std::size_t task) const { return node_of_[class_index][task]; }
  /// A task that the node stands for.
  graph::ClassTask task_of(std::uint32_t node) const { return task_of_[node]; }
  std::span<const std::uint32_t> after(std::uint32_t node) const { return after_.after(node); }
  std::span<const std::uint32_t> before(std::uint32_t node) const { return before_.after(node); }
  /// All nodes, so that edges go forward.
  std::span<const std::uint32_t> order() const { return order_; }

  /// By node: the longest path to it, or from it. Walks over the nodes in order, and looks only at each node's direct
  /// neighbours.
  std::vector<double> longest_paths(bool from_begin) const;

  /// Resources that bound a step by their work; not `cores`.
  const std::vector<StepResource>& resources() const { return resources_; }
  /// Numbers of the queues that serve the node: a class's one compute stream, channels and local streams.
  const std::vector<std::uint32_t>& queues(std::uint32_t node) const { return queues_[node]; }
  /// What slows the computations of a class down: its channels, links and cores.
  const std::vector<StepResource>& slowing(std::size_t class_index) const { return slowing_[class_index]; }
  /// The resource of a name. Both throw std::logic_error if there is none.
  const StepResource& resource(const ResourceName& name) const { return named(name, resources_); }
  const StepResource& slowing(std::size_t class_index, const ResourceName& name) const {
    return named(name, slowing_[class_index]);
  }

 private:
  static const StepResource& named(const ResourceName& name, std::span<const StepResource> resources);
  void add_nodes(const graph::OpenGraph& open);
  void add_edges(const graph::OpenGraph& open);
  void add_resources(const graph::OpenGraph& open);

  std::vector<std::vector<std::uint32_t>> node_of_;
  std::vector<graph::ClassTask> task_of_;
  std::vector<double> cost_, link_ns_;  // by node
  policy::NodeEdges after_, before_;    // the edges, and the same turned round
  std::vector<std::uint32_t> order_;
  std::vector<StepResource> resources_;
  std::vector<std::vector<StepResource>> slowing_;
  std::vector<std::vector<std::uint32_t>> queues_;  // by node; a queue's number is that of its resource
};

/// Whether a queue serves both tasks, one at a time: one compute stream, a channel, or a local stream.
bool served_one_at_a_time(const graph::OpenGraph& open, const graph::OpenTask& a, const graph::OpenTask& b);

/// A number that two programs compute alike from a graph file: 64-bit FNV-1a of the times, operations, queues,
/// messages, edges, links and contention, all that a bound rests on (docs/bench.md).
std::uint64_t bound_fingerprint(const graph::OpenGraph& open);

}  // namespace weft::simulate
