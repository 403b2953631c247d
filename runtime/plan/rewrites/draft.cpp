#include "runtime/plan/rewrites/draft.h"

#include <utility>

#include "graph/named_accesses.h"

namespace weft {
namespace {

std::string fresh_name(std::unordered_set<std::string>& taken, const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !taken.insert(name).second; ++number) name = wanted + std::to_string(number);
  return name;
}

}  // namespace

GraphDraft::GraphDraft(const Graph& graph)
    : arguments_(graph.arguments()),
      tensors_(graph.tensors().begin(), graph.tensors().end()),
      tasks_(graph.tasks().begin(), graph.tasks().end()) {
  for (const Tensor& tensor : tensors_) tensor_names_.insert(tensor.name);
  for (const Task& task : tasks_) task_names_.insert(task.name);
}

TensorId GraphDraft::add_tensor(Tensor tensor) {
  tensor.name = fresh_name(tensor_names_, tensor.name);
  tensors_.push_back(std::move(tensor));
  return TensorId(tensors_.size() - 1);
}

std::string GraphDraft::fresh_task_name(const std::string& wanted) {
  return fresh_name(task_names_, wanted);
}

std::shared_ptr<const Graph> GraphDraft::build() && {
  std::vector<bool> accessed(tensors_.size(), false);
  for (const Task& task : tasks_) {
    for (const Access& access : task.accesses) accessed[access.view.tensor.index()] = true;
  }
  GraphBuilder builder(arguments_);
  std::vector<TensorId> renumbered(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (accessed[i] || is_state(tensors_[i].role)) renumbered[i] = builder.add_tensor(std::move(tensors_[i]));
  }
  for (Task& task : tasks_) {
    for (Access& access : task.accesses) access.view.tensor = renumbered[access.view.tensor.index()];
    builder.add_task(std::move(task));
  }
  return std::make_shared<const Graph>(std::move(builder).build());
}

const AllReduce* plain_all_reduce(const Task& task) {
  const auto* reduce = std::get_if<AllReduce>(&task.operation);
  if (reduce == nullptr || reduce->ranks < 2 || reduce->count < 1 || task.accesses.size() != 2) return nullptr;
  const NamedAccesses<AllReduce> accesses(task);
  const Access &buffer = accesses["buffer"], &workspace = accesses["workspace"];
  const bool plain = buffer.mode == AccessMode::read_write && buffer.view.contiguous() &&
                     buffer.view.elements() == reduce->count && workspace.mode == AccessMode::write &&
                     workspace.view.elements() == all_reduce_workspace(reduce->count, reduce->ranks);
  return plain ? reduce : nullptr;
}

const View& buffer_of(const Task& all_reduce) {
  return NamedAccesses<AllReduce>(all_reduce)["buffer"].view;
}

View part_of(const View& view, std::int64_t begin, std::int64_t count) {
  return {view.tensor, view.offset + begin, 1, count, count};
}

}  // namespace weft
