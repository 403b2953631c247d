// Gives the tasks of a random graph phases, layers and micro-batches, which policies and rewrites read.
#pragma once

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "tests/runtime/random_graph.h"

namespace weft::testing {

/// The same tasks, cut into a forward and a backward half of two layers and two micro-batches; the output of a single
/// all-gather is a gathered weight.
inline std::shared_ptr<const graph::Graph> in_layers(const graph::Graph& graph, std::uint64_t seed) {
  Draws draws(seed);
  graph::GraphBuilder builder(graph.arguments());
  std::vector<int> writers(graph.tensors().size(), 0), gathers(graph.tensors().size(), 0);
  for (const graph::Task& task : graph.tasks()) {
    for (const graph::Access& access : task.accesses) {
      if (access.mode == graph::AccessMode::read) continue;
      ++writers[access.view.tensor.index()];
      gathers[access.view.tensor.index()] += std::holds_alternative<graph::AllGather>(task.operation) ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    graph::Tensor tensor = graph.tensors()[i];
    if (tensor.role == graph::Role::activation && writers[i] == 1 && gathers[i] == 1)
      tensor.role = graph::Role::gathered;
    builder.add_tensor(std::move(tensor));
  }
  const std::size_t count = graph.tasks().size();
  for (std::size_t i = 0; i < count; ++i) {
    graph::Task task = graph.tasks()[i];
    task.phase = i < count / 2 ? graph::Phase::forward : graph::Phase::backward;
    task.layer = draws.chance(75) ? 0 : 1;
    task.micro_batch = draws.chance(90) ? 0 : 1;
    builder.add_task(std::move(task));
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

}  // namespace weft::testing
