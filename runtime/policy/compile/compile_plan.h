// Compiles a step into a plan of each rank class without communication, for commands that draw or report plans and for
// rank 0 of a run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/order.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// The user's rewrites, then the policy's own for the graph that results from them. pack-weights comes last, once; the
/// policy's takes precedence over the user's. fusions with products come first, once each, so that on a GPU too
/// the bits don't depend on the other rewrites.
std::vector<plan::Rewrite> rewrites_of(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                                       const PolicyOptions& options, std::span<const plan::Rewrite> chosen);

/// A policy's answer for a step; each list is by class.
struct Decision {
  std::vector<std::vector<plan::Rewrite>> rewrites;         // all: the user's and the policy's
  std::vector<std::shared_ptr<const graph::Graph>> graphs;  // after them
  std::vector<plan::Order> orders;                          // of these graphs, each within the options' memory
};

/// rewrites_of() and orders_within_memory(). Where the orders that the policy makes without a limit don't fit, a policy
/// that rewrites_to_fit() also orders the graphs of find_fitting_rewrites(), and the shorter step counts. Its rewrites
/// are in the orders' plan::Selection. The plain graphs aren't ordered if no order of them can fit
/// (graph::least_scratch_bytes()). Throws the exceptions of orders_within_memory().
Decision decide(graph::Classes classes, const Policy& policy, const PolicyOptions& options = {},
                std::span<const plan::Rewrite> chosen = {});

/// The plans of decide() by class, not checked. Throws the exceptions of decide() and of make_plan().
std::vector<plan::Plan> compile(graph::Classes classes, const Policy& policy, const PolicyOptions& options = {},
                                std::span<const plan::Rewrite> chosen = {});
/// compile() of a single class.
plan::Plan compile_plan(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                        const PolicyOptions& options = {}, std::span<const plan::Rewrite> chosen = {});

}  // namespace weft::policy
