#include "runtime/policy/policy.h"

#include <stdexcept>

#include "runtime/cost/cost_model.h"
#include "runtime/policy/scratch_limit.h"

namespace weft::policy {

PolicyOptions without_limits(PolicyOptions options) {
  options.memory = options.memory_limit = 0;
  return options;
}

std::vector<plan::Rewrite> Policy::rewrites(const graph::Graph&, const PolicyOptions&) const {
  return {};
}

std::vector<plan::Order> OneClassPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  if (classes.size() != 1) throw std::logic_error(name() + " orders a step of one class");
  PolicyOptions resolved = options;
  resolved.memory = 0;
  resolved.memory_limit = scratch_limit(*classes.front(), options);
  return {order(*classes.front(), resolved)};
}

cost::TaskCosts costs_of(const graph::Graph& graph, const PolicyOptions& options) {
  return options.cost_model != nullptr ? options.cost_model->costs(graph) : cost::default_cost_model().costs(graph);
}

}  // namespace weft::policy
