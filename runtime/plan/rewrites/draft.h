// A graph taken apart, so that a rewrite can change tensors and tasks and have the edges inferred anew.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace weft {

/// Tensors and tasks with the numbers that they have in the graph; new tensors are numbered behind them. Tasks are held
/// to schemas if those of the graph were.
class GraphDraft {
 public:
  explicit GraphDraft(const Graph& graph);

  const Tensor& tensor(TensorId id) const { return tensors_[id.index()]; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// In program order, which the rewrite keeps or changes.
  std::vector<Task>& tasks() { return tasks_; }
  const std::vector<Task>& tasks() const { return tasks_; }

  /// A tensor like `tensor`; a name that is taken gets a number.
  TensorId add_tensor(Tensor tensor);
  /// `wanted`, with a number if another task has or had that name.
  std::string fresh_task_name(const std::string& wanted);

  /// Leaves out scratch tensors that no task accesses, and infers the edges. Throws std::logic_error where the builder
  /// does: the rewrite is wrong.
  std::shared_ptr<const Graph> build() &&;

 private:
  const Arguments arguments_;
  std::vector<Tensor> tensors_;
  std::vector<Task> tasks_;
  std::unordered_set<std::string> tensor_names_, task_names_;
};

/// The task's operation, if it is an all-reduce of the form that rewrites know: over several ranks, of one contiguous
/// range, with a workspace. Else null.
const AllReduce* plain_all_reduce(const Task& task);

/// What a plain all-reduce reduces.
const View& buffer_of(const Task& all_reduce);

/// The elements [begin, begin + count) of a contiguous view.
View part_of(const View& view, std::int64_t begin, std::int64_t count);

}  // namespace weft
