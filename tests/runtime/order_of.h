// The order of a single graph, for tests.
#pragma once

#include <memory>

#include "graph/rank_classes.h"
#include "runtime/policy/policy.h"

namespace weft::testing {

inline plan::Order order_of(const policy::Policy& policy, const graph::Graph& graph,
                            const policy::PolicyOptions& options = {}) {
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  return policy.orders({&borrowed, 1}, options).front();
}

}  // namespace weft::testing
