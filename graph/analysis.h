// What a graph says about itself before anybody schedules it: orders, the critical path, lower bounds, the lives of
// tensors, and the edges that other edges already imply.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft::graph {

/// An order of all tasks in which every edge of distance 0 goes forward: of the tasks that are ready, the one with the
/// greatest priority comes first, ties in program order. No priorities: program order.
std::vector<TaskId> topological_order(const Graph& graph, std::span<const double> priority = {});

/// Why `order` is no topological order of the graph ("'b' stands before 'a', but must come after it"), or "".
std::string why_not_topological(const Graph& graph, std::span<const TaskId> order);

/// Longest path through the completes_before edges of distance 0, where a task is as long as its cost.
struct CriticalPath {
  std::vector<double> head;   // by task: the longest path into it, without its own cost
  std::vector<double> tail;   // by task: the longest path out of it, without its own cost
  std::vector<TaskId> tasks;  // one longest path, first to last
  double length = 0;          // no schedule of one step is shorter, whatever the number of streams

  /// How much later than at head(task) a task may begin without lengthening the step.
  double slack(TaskId task, std::span<const double> cost) const {
    return length - head[task.index()] - cost[task.index()] - tail[task.index()];
  }
};

/// `cost` has one value ≥ 0 a task, in any unit. Throws std::logic_error if their numbers differ.
CriticalPath critical_path(const Graph& graph, std::span<const double> cost);

/// A lower bound on the length of any schedule that runs `tasks` one at a time (a stream, a link): the optimum of the
/// preemptive one-machine problem with heads and tails, which is the maximum over all subsets S of the tasks of
/// min head(S) + Σ cost(S) + min tail(S) (J. Carlier, "The one-machine sequencing problem", EJOR 11, 1982).
/// Takes O(n log n).
double one_machine_bound(std::span<const TaskId> tasks, std::span<const double> cost, const CriticalPath& path);

/// The sum of costs on each of `streams` streams; `stream_of` has a stream number for each task.
std::vector<double> work_per_stream(std::span<const double> cost, std::span<const std::uint32_t> stream_of,
                                    std::size_t streams);

/// From the first to the last position in an order at which a tensor is accessed. A tensor that no task accesses has
/// first = last = -1.
struct Lifetime {
  std::int64_t first = -1, last = -1;
};

/// The memory that an order needs, if each scratch tensor has its bytes from its first access to its last.
struct Liveness {
  std::vector<Lifetime> lifetimes;       // by tensor
  std::vector<std::int64_t> live_bytes;  // by position: scratch bytes alive while that task runs
  std::int64_t peak_bytes = 0;
  std::size_t peak_position = 0;  // the first position at which the peak is reached
  std::int64_t state_bytes = 0;   // tensors that outlive the step; not part of the curve
};

Liveness liveness(const Graph& graph, std::span<const TaskId> order);

/// How strong an edge is. A path of edges implies an edge between its ends if none of them is weaker than that edge.
///   order: issued_before; completion: completes_before of any reason; data: completes_before, read after write
enum class EdgeStrength : std::uint8_t { order, completion, data };

EdgeStrength strength_of(const Edge& edge);

/// Marks the edges that a longer path of edges at least as strong implies (transitive reduction, per strength), and of
/// parallel edges all but the strongest. Edges of distance > 0 are never marked.
/// The edges may come in any order but must form no cycle within distance 0, else std::logic_error.
///
///   a→b, b→c, a→c (all data): a→c is marked. If b→c were write after read, a→c would stay.
///
/// For windows of 4096 sources the set of those that reach a task is kept as bits and passed down the edges in
/// topological order: tasks · edges / 64 word operations, 512 bytes a task. 20 k tasks and 100 k edges: 10 MB.
std::vector<bool> implied_edges(std::size_t tasks, std::span<const Edge> edges);

/// Do the edges of distance 0 form no cycle? A graph's never do; those between groups of its tasks may.
bool acyclic(std::size_t tasks, std::span<const Edge> edges);

/// work_of(), with the size of the elements taken from the first floating-point tensor that the task accesses.
Work work_of(const Graph& graph, const Task& task);

}  // namespace weft::graph
