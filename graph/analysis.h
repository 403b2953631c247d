// Properties of a graph before it is scheduled: topological orders, the critical path, lower bounds, lifetimes of
// tensors, and the edges that other edges imply.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft::graph {

/// An order of all tasks in which every edge of distance 0 goes forward. The ready task with the greatest priority
/// comes first, ties in program order. Without priorities it is the program order.
std::vector<TaskId> topological_order(const Graph& graph, std::span<const double> priority = {});

/// Why `order` is no topological order of the graph ("'b' comes before 'a', but must come after it"); "" if it is one.
std::string why_not_topological(const Graph& graph, std::span<const TaskId> order);

/// The longest path along completes_before edges of distance 0; the length of a task is its cost.
struct CriticalPath {
  std::vector<double> head;   // by task: the longest path into it, without its own cost
  std::vector<double> tail;   // by task: the longest path out of it, without its own cost
  std::vector<TaskId> tasks;  // one longest path, first to last
  double length = 0;          // no schedule of one step is shorter, whatever the number of streams

  /// How much later than head(task) a task may begin without lengthening the step.
  double slack(TaskId task, std::span<const double> cost) const {
    return length - head[task.index()] - cost[task.index()] - tail[task.index()];
  }
};

/// `cost` has one value ≥ 0 for each task, in any unit. Throws std::logic_error if the counts differ.
CriticalPath critical_path(const Graph& graph, std::span<const double> cost);

/// A lower bound on the length of any schedule that runs `tasks` one at a time (a stream, a link): the optimum of the
/// preemptive one-machine problem with heads and tails, which is the maximum over all subsets S of the tasks of
/// min head(S) + Σ cost(S) + min tail(S) (J. Carlier, "The one-machine sequencing problem", EJOR 11, 1982).
/// Takes O(n log n).
double one_machine_bound(std::span<const TaskId> tasks, std::span<const double> cost, const CriticalPath& path);

/// The first and the last position in an order at which a tensor is accessed; first = last = -1 if no task accesses it.
struct Lifetime {
  std::int64_t first = -1, last = -1;
};

/// The memory that an order needs if each scratch tensor keeps its bytes from its first access to its last.
struct Liveness {
  std::vector<Lifetime> lifetimes;       // by tensor
  std::vector<std::int64_t> live_bytes;  // by position: bytes of scratch tensors alive while that task runs
  std::int64_t peak_bytes = 0;
  std::size_t peak_position = 0;  // the first position at which the peak is reached
  std::int64_t state_bytes = 0;   // bytes of tensors that outlive the step; not part of live_bytes
};

Liveness liveness(const Graph& graph, std::span<const TaskId> order);

/// Bytes of scratch that are in use while the task runs, in every order: it uses them itself, or tasks that have to run
/// before it and tasks that have to run after it do.
std::int64_t bytes_kept_at(const Graph& graph, TaskId task);

/// No plan of any order takes less scratch: the most of bytes_kept_at(), of every √tasks-th task and of all tasks near
/// the one of these with the most. Takes O(√tasks · (tasks + edges)).
std::int64_t least_scratch_bytes(const Graph& graph);

/// How strong an edge is. A path of edges implies an edge between its ends if no edge of the path is weaker.
///   order: issued_before; completion: completes_before of any reason; data: completes_before, read after write
enum class EdgeStrength : std::uint8_t { order, completion, data };

EdgeStrength strength_of(const Edge& edge);

/// Marks the edges that a longer path of edges at least as strong implies (transitive reduction by strength), and all
/// parallel edges but the strongest. Edges of distance > 0 are never marked. The edges may come in any order;
/// std::logic_error if those of distance 0 form a cycle.
///
///   a→b, b→c, a→c (all data): a→c is marked. If b→c were write after read, a→c would stay.
///
/// For each window of 4096 sources, the sources that reach a task are kept as a set of bits and passed along the edges
/// in topological order: tasks · edges / 64 word operations, 512 bytes a task. 20 k tasks and 100 k edges take 10 MB.
std::vector<bool> implied_edges(std::size_t tasks, std::span<const Edge> edges);

/// Whether the edges of distance 0 are free of cycles. A graph's edges always are; edges between groups of its tasks
/// may not be.
bool acyclic(std::size_t tasks, std::span<const Edge> edges);

/// work_of(); the element size is that of the first floating-point tensor that the task accesses.
Work work_of(const Graph& graph, const Task& task);

}  // namespace weft::graph
