// Compiles a program of several rank classes, the stages of a pipeline, into one plan a class. Without communication,
// as compile_plan.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/order.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// A policy's answer for a program; each list is by class, that is by pipeline rank.
struct JointDecision {
  std::vector<std::vector<plan::Rewrite>> rewrites;         // all: the user's and the policy's
  std::vector<std::shared_ptr<const graph::Graph>> graphs;  // after them
  std::vector<plan::Order> orders;                          // of these graphs, each within the options' memory
};

/// Of one class decide(). Of several the rewrites of each class (rewrites_of()), then Policy::orders(): without a
/// memory limit if their plans keep it, else with it. A policy that rewrites_to_fit() then also orders the graphs of
/// find_fitting_stages(), and the shorter step counts. Throws UserError naming the stage whose plan doesn't fit, and
/// whatever the policy throws.
JointDecision decide_together(std::span<const std::shared_ptr<const graph::Graph>> classes, const Policy& policy,
                              const PolicyOptions& options = {}, std::span<const plan::Rewrite> chosen = {});

/// The plans of decide_together(), by class, not checked. Of one class compile_plan(). Throws the exceptions of
/// decide_together() and of make_plan().
std::vector<plan::Plan> compile_together(std::span<const std::shared_ptr<const graph::Graph>> classes,
                                         const Policy& policy, const PolicyOptions& options = {},
                                         std::span<const plan::Rewrite> chosen = {});

}  // namespace weft::policy
