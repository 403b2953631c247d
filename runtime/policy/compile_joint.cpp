#include "runtime/policy/compile_joint.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text/units.h"
#include "runtime/policy/compile_plan.h"
#include "runtime/policy/fit_memory.h"
#include "runtime/policy/rewrite_stages_to_fit.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {
namespace {

using Classes = std::span<const std::shared_ptr<const graph::Graph>>;

/// A class whose plan takes more than its limit.
struct Misfit {
  std::size_t stage = 0;
  std::int64_t state = 0, scratch = 0, limit = 0;  // bytes
};

std::vector<Misfit> find_misfits(Classes graphs, const std::vector<plan::Order>& orders, const PolicyOptions& options) {
  std::vector<Misfit> misfits;
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    const std::int64_t limit = scratch_limit(*graphs[k], options);
    if (limit == 0) continue;
    const std::int64_t scratch = plan::make_plan(graphs[k], orders[k], "tried").scratch_bytes;
    if (scratch > limit) misfits.push_back({k, state_bytes(*graphs[k]), scratch, limit});
  }
  return misfits;
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

/// The decision with layers computed again, if that fits and is shorter than `plain_ns`.
std::optional<JointDecision> rewritten_to_fit(Classes classes, const JointDecision& plain, const Policy& policy,
                                              const PolicyOptions& options, const std::vector<Misfit>& misfits,
                                              double plain_ns) {
  std::vector<bool> short_of_memory(classes.size(), false);
  for (const Misfit& misfit : misfits) short_of_memory[misfit.stage] = true;
  std::optional<FittingStages> found = find_fitting_stages(classes, plain.rewrites, short_of_memory, options);
  if (!found) return std::nullopt;
  JointDecision joint{std::move(found->rewrites), std::move(found->graphs), {}};
  LimitedOrders weighed = LimitedLists(joint.graphs, options).weigh(policy.orders(joint.graphs, options));
  if (!weighed.fits() || weighed.makespan >= plain_ns) return std::nullopt;
  joint.orders = std::move(weighed.orders);
  for (std::size_t k = 0; k < joint.orders.size(); ++k) {
    const plan::Selection chosen{.order = policy.name(), .orders = found->priced, .makespan_ns = weighed.makespan};
    for (plan::Reason& reason : joint.orders[k].reasons) {
      if (!reason.selection) reason.selection = chosen;
      reason.selection->rewrites = plan::to_string(std::span<const plan::Rewrite>(found->chosen[k]));
    }
  }
  return joint;
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
  joint.orders = policy.orders(joint.graphs, without_limits(options));
  const std::vector<Misfit> misfits = find_misfits(joint.graphs, joint.orders, options);
  if (misfits.empty()) return joint;
  joint.orders = policy.orders(joint.graphs, options);
  const std::vector<Misfit> left = find_misfits(joint.graphs, joint.orders, options);
  if (policy.rewrites_to_fit()) {
    const double plain_ns = left.empty() ? LimitedLists(joint.graphs, options).weigh(joint.orders).makespan
                                         : std::numeric_limits<double>::infinity();
    if (auto rewritten = rewritten_to_fit(classes, joint, policy, options, misfits, plain_ns)) return *rewritten;
  }
  if (!left.empty()) refuse(left.front(), policy, options);
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
