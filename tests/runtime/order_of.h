// What policies decide for a single graph, for tests.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/policy/builtin/fit_memory.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::testing {

inline plan::Order order_of(const policy::Policy& policy, const graph::Graph& graph,
                            const policy::PolicyOptions& options = {}) {
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  return policy.orders({&borrowed, 1}, options).front();
}

inline plan::Order order_within_memory(const policy::Policy& policy, const graph::Graph& graph,
                                       const policy::PolicyOptions& options) {
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  return policy::orders_within_memory(policy, {&borrowed, 1}, options).front();
}

inline policy::ClassTasks class_tasks(const graph::Graph& graph, const cost::TaskCosts& costs,
                                      const policy::PolicyOptions& options) {
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  return {{&borrowed, 1}, {&costs, 1}, options.compute_streams};
}

inline policy::Timetable timetable_of(const graph::Graph& graph, const plan::Order& order, const cost::TaskCosts& costs,
                                      const policy::PolicyOptions& options) {
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  return policy::timetable_of({&borrowed, 1}, {&order, 1}, {&costs, 1}, options);
}

struct DecisionOfOne {
  std::vector<plan::Rewrite> rewrites;
  std::shared_ptr<const graph::Graph> graph;
  plan::Order order;
};

inline DecisionOfOne decide_one(const std::shared_ptr<const graph::Graph>& graph, const policy::Policy& policy,
                                const policy::PolicyOptions& options, std::span<const plan::Rewrite> chosen = {}) {
  const policy::Decision decision = policy::decide({&graph, 1}, policy, options, chosen);
  return {decision.rewrites.front(), decision.graphs.front(), decision.orders.front()};
}

}  // namespace weft::testing
