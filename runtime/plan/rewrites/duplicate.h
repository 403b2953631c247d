// Copies of tasks for later readers, for rewrites that compute or gather a tensor again instead of keeping it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft::plan {

/// Copies of the tasks `sources` run before task `before` and write new tensors, which `readers` read.
struct Duplication {
  std::vector<std::size_t> sources;  // in program order
  std::vector<std::size_t> readers;
  std::size_t before = 0;
  std::string suffix;  // of the copies' names
  graph::Phase phase = graph::Phase::backward;
  std::int32_t micro_batch = -1;
};

/// The tasks that access each tensor, as indices in program order.
struct TensorUses {
  explicit TensorUses(const graph::Graph& graph);
  std::vector<std::vector<std::size_t>> readers, writers;  // by tensor; a task that reads and writes is in both

  /// Does a task with an index in (after, before) write elements of the view?
  bool written_between(const graph::Graph& graph, const graph::View& view, std::size_t after, std::size_t before) const;
};

/// No task may be a reader of two duplications of the same tensor.
std::shared_ptr<const graph::Graph> duplicate(const graph::Graph& graph, std::vector<Duplication> duplications);

/// Does a rewrite apply to the layer? An empty list means all layers.
bool names_layer(const std::vector<std::int32_t>& layers, std::int32_t layer);

}  // namespace weft::plan
