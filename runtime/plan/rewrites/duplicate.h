// The mechanism of rewrites that compute or gather again what would else be kept: copies of tasks for later readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft::plan {

/// Tasks `sources` run once more before task `before`, into tensors of their own, and `readers` read these.
struct Duplication {
  std::vector<std::size_t> sources;  // in program order
  std::vector<std::size_t> readers;
  std::size_t before = 0;
  std::string suffix;  // of the copies' names
  graph::Phase phase = graph::Phase::backward;
  std::int32_t micro_batch = -1;
};

/// Who accesses each tensor: indices of tasks in program order.
struct TensorUses {
  explicit TensorUses(const graph::Graph& graph);
  std::vector<std::vector<std::size_t>> readers, writers;  // by tensor; a task that does both is in both

  /// Does a task of number in (after, before) write elements of the view?
  bool written_between(const graph::Graph& graph, const graph::View& view, std::size_t after, std::size_t before) const;
};

/// No task may be a reader of two duplications of the same tensor.
std::shared_ptr<const graph::Graph> duplicate(const graph::Graph& graph, std::vector<Duplication> duplications);

/// Is the layer among those that a rewrite names? None named: all are meant.
bool names_layer(const std::vector<std::int32_t>& layers, std::int32_t layer);

}  // namespace weft::plan
