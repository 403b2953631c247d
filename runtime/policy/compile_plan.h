// From a graph to a plan without asking other ranks: what commands draw and report, and what rank 0 decides.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// Those that the user chose, then those that the policy wants of the graph that they leave; pack-weights behind all
/// others, once, the policy's before the user's; fuse-gelu before all others, once: so that on a GPU too the bits don't
/// depend on what else is rewritten.
std::vector<plan::Rewrite> rewrites_of(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                                       const PolicyOptions& options, std::span<const plan::Rewrite> chosen);

/// The plan of the rewritten graph, unchecked. Throws what the policy and make_plan throw.
plan::Plan compile_plan(std::shared_ptr<const graph::Graph> graph, const Policy& policy,
                        const PolicyOptions& options = {}, std::span<const plan::Rewrite> chosen = {});

}  // namespace weft::policy
