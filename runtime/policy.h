// The interface of scheduling policies and the list of built-in ones.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/order.h"

namespace weft {

struct PolicyOptions {
  int compute_streams = 1;
};

/// A pure function from a graph to an order: equal inputs give equal orders, on every rank and every day.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  /// Throws UserError on options out of range.
  virtual Order order(const Graph& graph, const PolicyOptions& options) const = 0;
};

/// The names that `--policy` takes.
std::vector<std::string> policy_names();

/// Throws UserError naming the nearest policy.
std::unique_ptr<Policy> make_policy(std::string_view name);

}  // namespace weft
