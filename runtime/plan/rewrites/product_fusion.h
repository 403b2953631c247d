// The common part of the rewrites that fuse tasks into products: when a product can do the elementwise task after it.
#pragma once

#include <cstddef>

#include "graph/graph.h"
#include "runtime/plan/rewrites/duplicate.h"
#include "runtime/plan/rewrites/graph_draft.h"

namespace weft::plan {

/// Finds the product of a matrix, and tells whether its epilogue can write another result. Each rewrite derives from it
/// and adds its own conditions.
class ProductFusion {
 protected:
  explicit ProductFusion(const graph::Graph& graph) : graph_(graph), uses_(graph), draft_(graph) {}

  /// The product that is the only writer of the whole matrix, if `reader` reads all of it in the same pass and the
  /// product can have an epilogue; else null.
  graph::Task* product_of(const graph::View& matrix, std::size_t reader);
  /// Can the product that writes `like` write task i's `result` too, at the product's position? If so, no task may
  /// access `result` before i.
  bool fits(const graph::View& result, const graph::View& like, std::size_t i) const;
  bool whole(const graph::View& view) const;
  static bool one_pass(const graph::Task& a, const graph::Task& b);

  const graph::Graph& graph_;
  TensorUses uses_;
  GraphDraft draft_;
};

}  // namespace weft::plan
