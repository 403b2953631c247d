// The dependency graph of one training step of one rank: tasks in program order, edges inferred from their accesses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/id.h"
#include "graph/operation.h"
#include "graph/tensor.h"

namespace weft::graph {

using TaskId = Id<struct TaskTag>;

struct Access {
  View view;
  AccessMode mode = AccessMode::read;
};

/// A task that comes before, although no access says so.
struct TaskBefore {
  TaskId task;
  bool only_issued = false;  // EdgeKind::issued_before
  float confidence = 1;      // that the edge is real, where it was guessed
  bool only_order = false;   // EdgeReason::recorded_order
};

enum class Phase : std::uint8_t { forward, backward, update };

std::string_view to_string(Phase phase);

struct Task {
  std::string name;  // unique on its rank, the same in every drawing, trace and message
  Operation operation;
  std::vector<Access> accesses;  // in the order of the operation's schema
  std::int32_t layer = -1;       // -1: not in a layer
  std::int32_t micro_batch = -1;
  Phase phase = Phase::forward;
  std::vector<TaskBefore> after = {};  // edges besides the ones of accesses
  std::int32_t stage = -1;             // of a pipeline, counted over all ranks and their chunks; -1: not in a stage
};

/// The access that a collective moves, the first argument of its schema. Null for a task without accesses.
inline const Access* payload_of(const Task& task) {
  return task.accesses.empty() ? nullptr : &task.accesses.front();
}

/// completes_before: `to` starts after `from` is done. issued_before: only the order of issue is fixed.
enum class EdgeKind : std::uint8_t { completes_before, issued_before };

std::string_view to_string(EdgeKind kind);

/// Why an edge exists: data is read after it is written, an anti-dependency, two tensors share bytes, a policy asked
/// for it, the graph's file has it (Task::after), or both tasks were recorded in this order on one queue, which says
/// nothing about data.
enum class EdgeReason : std::uint8_t {
  read_after_write,
  write_after_read,
  write_after_write,
  memory,
  policy,
  given,
  recorded_order
};

std::string_view to_string(EdgeReason reason);

struct Edge {
  TaskId from, to;
  EdgeKind kind = EdgeKind::completes_before;
  EdgeReason reason = EdgeReason::read_after_write;
  std::uint8_t distance = 0;  // 1: from the previous step's task to this step's
  TensorId tensor;            // the first tensor that caused the edge; invalid for a policy's edge
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// In which directions a channel uses its link: a send leaves, a receive arrives, a collective does both.
enum class Direction : std::uint8_t { both, out, in };

/// A channel of one of a step's rank classes.
struct ClassChannel {
  std::uint32_t of_class = 0;
  Channel channel = Channel::world;
  friend bool operator==(const ClassChannel&, const ClassChannel&) = default;
};

/// A channel that the graph itself describes: a process group of somebody else's step, or a queue of the rank's own.
struct ChannelInfo {
  Channel channel = Channel::world;
  std::string name;
  std::int64_t group_size = 1;
  bool local = false;  // a CPU thread, or copies: nothing goes to other ranks
  std::string link;    // channels with equal texts share a link; "": a link of its own
  Direction direction = Direction::both;
  /// Channels of several classes whose tasks start together (channels_together()); empty: it meets no other class.
  std::vector<ClassChannel> together = {};
  /// By rank of the class: its group. Ranks of all classes of `together` with equal numbers start together.
  std::vector<std::int64_t> groups = {};
};

/// Whether the builder checks a task's accesses against its operation's schema. Graphs that are planned, simulated and
/// drawn but never run need no check.
enum class Arguments : std::uint8_t { of_schema, of_any_form };

/// Whether accesses that conflict get an edge. If not, they tell how long memory is in use, and edges are in
/// Task::after.
enum class Conflicts : std::uint8_t { ordered, left };

/// Immutable. Tasks are numbered in program order, and every edge of distance 0 goes from a lower to a higher number.
///
///   a: write x      edges: a→b (read after write on x), b→c (write after read on x),
///   b: read x              and with distance 1: c→b? no: a writes x first, so c→a (write after write).
///   c: write x
class Graph {
 public:
  std::span<const Tensor> tensors() const { return tensors_; }
  std::span<const Task> tasks() const { return tasks_; }
  const Tensor& tensor(TensorId id) const { return tensors_[id.index()]; }
  const Task& task(TaskId id) const { return tasks_[id.index()]; }

  /// All edges, sorted by (to, from, distance).
  std::span<const Edge> edges() const { return edges_; }
  /// Edges into and out of a task, of distance 0 and 1.
  std::span<const Edge> in_edges(TaskId id) const;
  std::span<const Edge> out_edges(TaskId id) const;

  /// Invalid if no task has the name.
  TaskId find_task(std::string_view name) const;
  TensorId find_tensor(std::string_view name) const;

  /// Whether every task was checked against its operation's schema.
  Arguments arguments() const { return arguments_; }
  Conflicts conflicts() const { return conflicts_; }
  /// Whether a task is Opaque; then the graph can't be executed or rewritten.
  bool has_opaque_tasks() const { return has_opaque_tasks_; }

  /// Channels that the graph describes itself; none in a graph that Weft lowered.
  std::span<const ChannelInfo> channels() const { return channels_; }
  /// Null unless the graph describes the channel.
  const ChannelInfo* channel_info(Channel channel) const;
  std::string_view channel_name(Channel channel) const;
  /// Whether the channel is a queue of the rank's own.
  bool is_local(Channel channel) const;
  Direction direction(Channel channel) const;
  /// Names of the streams on which opaque tasks ran (Opaque::stream).
  std::span<const std::string> stream_names() const { return stream_names_; }
  /// Channels are numbered below it.
  std::size_t channel_count() const;

  /// A hash of tensors, operations and accesses. Equal graphs have equal fingerprints on every rank.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  friend class GraphBuilder;
  std::vector<Tensor> tensors_;
  std::vector<Task> tasks_;
  std::vector<Edge> edges_;
  std::vector<Edge> out_;  // the edges, sorted by `from`
  std::vector<std::uint32_t> in_begin_, out_begin_;
  std::unordered_map<std::string, TaskId> task_by_name_;
  std::unordered_map<std::string, TensorId> tensor_by_name_;
  std::uint64_t fingerprint_ = 0;
  std::vector<ChannelInfo> channels_;
  std::vector<std::string> stream_names_;
  Arguments arguments_ = Arguments::of_schema;
  Conflicts conflicts_ = Conflicts::ordered;
  bool has_opaque_tasks_ = false;
};

/// Collects tensors and tasks in program order; build() infers the edges. Throws std::logic_error on a duplicate name,
/// a view outside its tensor, accesses that don't fit the operation's schema or a read of scratch that no
/// task wrote.
class GraphBuilder {
 public:
  explicit GraphBuilder(Arguments arguments = Arguments::of_schema, Conflicts conflicts = Conflicts::ordered) {
    graph_.arguments_ = arguments;
    graph_.conflicts_ = conflicts;
  }
  void add_channel(ChannelInfo info) { graph_.channels_.push_back(std::move(info)); }
  void name_streams(std::vector<std::string> names) { graph_.stream_names_ = std::move(names); }
  TensorId add_tensor(Tensor tensor);
  TaskId add_task(Task task);
  const Tensor& tensor(TensorId id) const { return graph_.tensors_[id.index()]; }
  TensorId find_tensor(std::string_view name) const { return graph_.find_tensor(name); }
  Graph build() &&;

 private:
  void find_conflicts(std::vector<Edge>& edges) const;
  void add_given_edges(std::vector<Edge>& edges) const;

  Graph graph_;
};

/// The whole tensor as a view: 2-D with its last dimension as columns.
View whole(const GraphBuilder& builder, TensorId id);

inline Access read(View view) {
  return {view, AccessMode::read};
}
inline Access write(View view) {
  return {view, AccessMode::write};
}
inline Access read_write(View view) {
  return {view, AccessMode::read_write};
}

/// The graphs of a step, one a rank class: ranks whose graphs are equal. With pipelines these are the stages in their
/// order; without, the list has one graph.
using Classes = std::span<const std::shared_ptr<const Graph>>;

/// A graph that its owner keeps for longer, as one of Classes.
inline std::shared_ptr<const Graph> borrowed(const Graph& graph) {
  return {std::shared_ptr<void>(), &graph};
}

/// A task of a class.
struct ClassTask {
  std::uint32_t of_class = 0, task = 0;
  friend bool operator==(const ClassTask&, const ClassTask&) = default;
};

}  // namespace weft::graph
