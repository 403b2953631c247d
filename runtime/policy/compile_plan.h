// Compiles a graph into a plan without communication, for commands that draw or report plans and for rank 0 of a run.
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
/// policy's takes precedence over the user's. fuse-gelu comes first, once, so that on a GPU too the bits don't depend
/// on the other rewrites.
std::vector<plan::Rewrite> rewrites_of(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                                       const PolicyOptions& options, std::span<const plan::Rewrite> chosen);

/// A policy's answer for a graph.
struct Decision {
  std::vector<plan::Rewrite> rewrites;        // all: the user's and the policy's
  std::shared_ptr<const graph::Graph> graph;  // after them
  plan::Order order;                          // of that graph, within the options' memory
};

/// rewrites_of() and order_within_memory(). Where the order that the policy makes without a limit doesn't fit, a policy
/// that rewrites_to_fit() also orders the graph of find_fitting_rewrites(), and the shorter step counts. Its rewrites
/// are in the order's plan::Selection. The plain graph isn't ordered if no order of it can fit
/// (graph::least_scratch_bytes()). Throws the exceptions of order_within_memory().
Decision decide(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy, const PolicyOptions& options,
                std::span<const plan::Rewrite> chosen);

/// The plan of the rewritten graph, not checked, within the options' memory (runtime/policy/fit_memory.h). Throws the
/// exceptions of decide() and of make_plan().
plan::Plan compile_plan(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                        const PolicyOptions& options = {}, std::span<const plan::Rewrite> chosen = {});

}  // namespace weft::policy
