#include "runtime/plan/rewrites/graph_draft.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "graph/named_accesses.h"

namespace weft::plan {
namespace {

std::string fresh_name(std::unordered_set<std::string>& taken, const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !taken.insert(name).second; ++number) name = wanted + std::to_string(number);
  return name;
}

}  // namespace

GraphDraft::GraphDraft(const graph::Graph& graph)
    : arguments_(graph.arguments()),
      tensors_(graph.tensors().begin(), graph.tensors().end()),
      tasks_(graph.tasks().begin(), graph.tasks().end()),
      dropped_(tasks_.size(), false),
      order_(tasks_.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  for (const graph::Tensor& tensor : tensors_) tensor_names_.insert(tensor.name);
  for (const graph::Task& task : tasks_) task_names_.insert(task.name);
}

graph::TensorId GraphDraft::add_tensor(graph::Tensor tensor) {
  tensor.name = fresh_name(tensor_names_, tensor.name);
  tensors_.push_back(std::move(tensor));
  return graph::TensorId(tensors_.size() - 1);
}

std::string GraphDraft::fresh_task_name(const std::string& wanted) {
  return fresh_name(task_names_, wanted);
}

std::shared_ptr<const graph::Graph> GraphDraft::build() && {
  std::vector<graph::Task> tasks;
  for (const std::size_t i : order_) {
    if (const auto inserted = inserted_.find(i); inserted != inserted_.end()) {
      std::ranges::move(inserted->second, std::back_inserter(tasks));
    }
    if (!dropped_[i]) tasks.push_back(std::move(tasks_[i]));
  }
  std::vector<bool> accessed(tensors_.size(), false);
  for (const graph::Task& task : tasks) {
    for (const graph::Access& access : task.accesses) accessed[access.view.tensor.index()] = true;
  }
  graph::GraphBuilder builder(arguments_);
  std::vector<graph::TensorId> renumbered(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (accessed[i] || graph::is_state(tensors_[i].role)) renumbered[i] = builder.add_tensor(std::move(tensors_[i]));
  }
  for (graph::Task& task : tasks) {
    for (graph::Access& access : task.accesses) access.view.tensor = renumbered[access.view.tensor.index()];
    builder.add_task(std::move(task));
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

const graph::AllReduce* plain_all_reduce(const graph::Task& task) {
  const auto* reduce = std::get_if<graph::AllReduce>(&task.operation);
  if (reduce == nullptr || reduce->ranks < 2 || reduce->count < 1 || task.accesses.size() != 2) return nullptr;
  const graph::NamedAccesses<graph::AllReduce> accesses(task);
  const graph::Access &buffer = accesses["buffer"], &workspace = accesses["workspace"];
  const bool plain = buffer.mode == graph::AccessMode::read_write && buffer.view.contiguous() &&
                     buffer.view.elements() == reduce->count && workspace.mode == graph::AccessMode::write &&
                     workspace.view.elements() == graph::all_reduce_workspace(reduce->count, reduce->ranks);
  return plain ? reduce : nullptr;
}

const graph::View& buffer_of(const graph::Task& all_reduce) {
  return graph::NamedAccesses<graph::AllReduce>(all_reduce)["buffer"].view;
}

graph::View part_of(const graph::View& view, std::int64_t begin, std::int64_t count) {
  return {view.tensor, view.offset + begin, 1, count, count};
}

}  // namespace weft::plan
