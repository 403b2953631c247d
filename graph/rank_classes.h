// A step is a list of rank classes: ranks whose graphs are equal. Without pipelines it is a list of one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "graph/graph.h"

namespace weft::graph {

/// The graphs of a step, one a rank class; with pipelines that of each stage, in their order.
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
