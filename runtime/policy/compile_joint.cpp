#include "runtime/policy/compile_joint.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text/units.h"
#include "runtime/policy/compile_plan.h"
#include "runtime/policy/fit_memory.h"

namespace weft::policy {
namespace {

using Classes = std::span<const std::shared_ptr<const graph::Graph>>;

/// A class whose plan takes more than its limit.
struct Misfit {
  std::size_t stage = 0;
  std::int64_t state = 0, scratch = 0, limit = 0;  // bytes
};

std::optional<Misfit> find_misfit(Classes graphs, const std::vector<plan::Order>& orders,
                                  const PolicyOptions& options) {
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    const std::int64_t limit = scratch_limit(*graphs[k], options);
    if (limit == 0) continue;
    const std::int64_t scratch = plan::make_plan(graphs[k], orders[k], "tried").scratch_bytes;
    if (scratch > limit) return Misfit{k, state_bytes(*graphs[k]), scratch, limit};
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const Misfit& misfit, const Policy& policy, const PolicyOptions& options) {
  const auto bytes = [](std::int64_t count) { return human_bytes(static_cast<std::uint64_t>(count)); };
  throw UserError(
      fmt::format("pipeline stage {} takes {} of memory a rank ({} of state and {} of scratch) under policy {}",
                  misfit.stage, bytes(misfit.state + misfit.scratch), bytes(misfit.state), bytes(misfit.scratch),
                  policy.name()),
      options.memory > 0 ? fmt::format("at most {}", bytes(options.memory))
                         : fmt::format("at most {} of scratch", bytes(misfit.limit)),
      "give it that much (--memory), use more stages, recompute activations (--recompute block), or a policy that "
      "keeps fewer micro-batches alive");
}

}  // namespace

JointDecision decide_together(Classes classes, const Policy& policy, const PolicyOptions& options,
                              std::span<const plan::Rewrite> chosen) {
  JointDecision joint;
  if (classes.size() == 1) {
    Decision decision = decide(classes.front(), policy, options, chosen);
    joint.rewrites.push_back(std::move(decision.rewrites));
    joint.graphs.push_back(std::move(decision.graph));
    joint.orders.push_back(std::move(decision.order));
    return joint;
  }
  for (const auto& each : classes) {
    joint.rewrites.push_back(rewrites_of(each, policy, options, chosen));
    joint.graphs.push_back(plan::rewrite(each, joint.rewrites.back(), options.weight_layouts));
  }
  PolicyOptions unlimited = options;
  unlimited.memory = unlimited.memory_limit = 0;
  joint.orders = policy.orders(joint.graphs, unlimited);
  if (!find_misfit(joint.graphs, joint.orders, options)) return joint;
  joint.orders = policy.orders(joint.graphs, options);
  if (const auto misfit = find_misfit(joint.graphs, joint.orders, options)) refuse(*misfit, policy, options);
  return joint;
}

std::vector<plan::Plan> compile_together(Classes classes, const Policy& policy, const PolicyOptions& options,
                                         std::span<const plan::Rewrite> chosen) {
  JointDecision joint = decide_together(classes, policy, options, chosen);
  std::vector<plan::Plan> plans;
  plans.reserve(joint.graphs.size());
  for (std::size_t k = 0; k < joint.graphs.size(); ++k)
    plans.push_back(plan::make_plan(std::move(joint.graphs[k]), joint.orders[k], policy.name()));
  return plans;
}

}  // namespace weft::policy
