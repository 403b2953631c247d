// An editable graph: a rewrite changes its tensors and tasks, and its edges are inferred again.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace weft::plan {

/// Tensors and tasks keep their ids of the graph; new tensors get the next ids. Tasks are checked against schemas if
/// the graph's tasks were.
class GraphDraft {
 public:
  explicit GraphDraft(const graph::Graph& graph);

  const graph::Tensor& tensor(graph::TensorId id) const { return tensors_[id.index()]; }
  /// A task of the graph, by its place there.
  graph::Task& task(std::size_t i) { return tasks_[i]; }
  /// Adds a task before task i, after those added there earlier.
  void insert_before(std::size_t i, graph::Task task) { inserted_[i].push_back(std::move(task)); }
  void drop(std::size_t i) { dropped_[i] = true; }
  bool is_dropped(std::size_t i) const { return dropped_[i]; }
  /// Leaves out all tasks but these, and puts them in this order.
  void reorder(std::vector<std::size_t> tasks) { order_ = std::move(tasks); }

  /// Adds the tensor; appends a number to a name that is taken.
  graph::TensorId add_tensor(graph::Tensor tensor);
  /// `wanted`, with a number if another task has or had that name.
  std::string fresh_task_name(const std::string& wanted);

  /// Leaves out scratch tensors that no task accesses, and infers the edges. Throws std::logic_error where the builder
  /// does, which is a bug of the rewrite.
  std::shared_ptr<const graph::Graph> build() &&;

 private:
  const graph::Arguments arguments_;
  std::vector<graph::Tensor> tensors_;
  std::vector<graph::Task> tasks_;
  std::map<std::size_t, std::vector<graph::Task>> inserted_;  // by the task before which they go
  std::vector<bool> dropped_;
  std::vector<std::size_t> order_;
  std::unordered_set<std::string> tensor_names_, task_names_;
};

/// The task's operation if it is an all-reduce of the form that rewrites support: over several ranks, of one contiguous
/// range, with a workspace. Else null.
const graph::AllReduce* plain_all_reduce(const graph::Task& task);

/// The view that a plain all-reduce reduces.
const graph::View& buffer_of(const graph::Task& all_reduce);

/// The elements [begin, begin + count) of a contiguous view.
graph::View part_of(const graph::View& view, std::int64_t begin, std::int64_t count);

}  // namespace weft::plan
