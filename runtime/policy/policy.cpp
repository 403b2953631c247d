#include "runtime/policy/policy.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/cost/cost_model.h"

namespace weft::policy {

PolicyOptions without_limits(PolicyOptions options) {
  options.memory = options.memory_limit = 0;
  return options;
}

std::int64_t state_bytes(const graph::Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::Tensor& tensor : graph.tensors()) bytes += graph::is_state(tensor.role) ? tensor.bytes() : 0;
  return bytes;
}

std::int64_t scratch_limit(const graph::Graph& graph, const PolicyOptions& options) {
  if (options.memory <= 0) return options.memory_limit;
  const std::int64_t left = std::max<std::int64_t>(1, options.memory - state_bytes(graph));
  return options.memory_limit > 0 ? std::min(left, options.memory_limit) : left;
}

std::vector<plan::Rewrite> Policy::rewrites(const graph::Graph&, const PolicyOptions&) const {
  return {};
}

std::vector<plan::Order> OneClassPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  if (classes.size() != 1) throw std::logic_error(name() + " orders a step of one class");
  return {order(*classes.front(), options)};
}

cost::TaskCosts costs_of(const graph::Graph& graph, const PolicyOptions& options) {
  return options.cost_model != nullptr ? options.cost_model->costs(graph) : cost::default_cost_model().costs(graph);
}

}  // namespace weft::policy
