// Compiles a graph into a plan without communication, for commands that draw or report plans and for rank 0 of a run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// The user's rewrites, then the policy's for the graph that results from them. pack-weights comes last, once; the
/// policy's takes precedence over the user's. fuse-gelu comes first, once, so that on a GPU too the bits don't depend
/// on the other rewrites.
std::vector<plan::Rewrite> rewrites_of(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                                       const PolicyOptions& options, std::span<const plan::Rewrite> chosen);

/// The plan of the rewritten graph, not checked, within the options' memory (runtime/policy/fit_memory.h). Throws the
/// exceptions of order_within_memory() and of make_plan().
plan::Plan compile_plan(std::shared_ptr<const graph::Graph> graph, const Policy& policy,
                        const PolicyOptions& options = {}, std::span<const plan::Rewrite> chosen = {});

}  // namespace weft::policy
