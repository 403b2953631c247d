#include "runtime/policy/compile/compile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"
#include "graph/analysis.h"
#include "runtime/policy/builtin/fit_memory.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/rewrite_to_fit.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

/// Chooses between the plain graphs, with the rewrites that they have anyway, and graphs that take less memory.
class RewrittenToFit {
 public:
  RewrittenToFit(graph::Classes classes, const Policy& policy, const PolicyOptions& options, const Decision& plain)
      : policy_(policy), options_(options), plain_(plain) {
    for (std::size_t k = 0; policy.rewrites_to_fit() && k < classes.size(); ++k)
      unpacked_.push_back(plan::rewrite(classes[k], std::span(plain.rewrites[k]).first(unpacked(k)), layouts()));
  }

  Decision decide(const LimitedOrders& wanted) const {
    FittingRewrites found;
    if (policy_.rewrites_to_fit()) {
      std::vector<bool> short_of_memory;
      for (std::size_t k = 0; k < classes(); ++k) short_of_memory.push_back(wanted.scratch_bytes[k] > limit(k));
      found = find_fitting_rewrites(
          classes(), [this](const auto& more) { return graphs_after(more); }, short_of_memory, options_);
    }
    LimitedOrders best = wanted;
    // Searching orders of graphs of which none fits takes longest.
    if (!found.possible || may_fit()) {
      LimitedOrders fitted = fitted_orders(policy_, plain_.graphs, options_, wanted.orders);
      if (fitted.better_than(best)) best = std::move(fitted);
    }
    if (!found.graphs.empty()) {
      Decision decision = rewritten(found);
      const double plain_ns = best.fits() ? makespan(plain_.graphs, best.orders) : kInfinite;
      if (makespan(decision.graphs, decision.orders) < plain_ns) return decision;
    }
    if (best.fits()) return {plain_.rewrites, plain_.graphs, std::move(best.orders)};
    if (found.possible && found.least.better_than(best)) best = std::move(found.least);
    refuse_memory(policy_, plain_.graphs, options_, best,
                  found.possible ? ", also with layers computed again and weights gathered again" : "");
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  std::size_t classes() const { return plain_.graphs.size(); }
  std::int64_t limit(std::size_t k) const { return scratch_limit(*plain_.graphs[k], options_); }
  bool may_fit() const {
    for (std::size_t k = 0; k < classes(); ++k) {
      if (graph::least_scratch_bytes(*plain_.graphs[k]) > limit(k)) return false;
    }
    return true;
  }
  const plan::WeightLayouts* layouts() const { return options_.weight_layouts; }
  /// The number of a class's rewrites before the packing of weights, which comes last.
  std::size_t unpacked(std::size_t k) const {
    return plain_.rewrites[k].size() - (plan::packs_weights(plain_.rewrites[k]) ? 1 : 0);
  }

  /// The rewrites with further ones, before the packing of weights.
  std::vector<plan::Rewrite> with(std::size_t k, std::span<const plan::Rewrite> more) const {
    std::vector<plan::Rewrite> all = plain_.rewrites[k];
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(unpacked(k)), more.begin(), more.end());
    return all;
  }

  std::vector<std::shared_ptr<const graph::Graph>> graphs_after(
      const std::vector<std::vector<plan::Rewrite>>& more) const {
    std::vector<std::shared_ptr<const graph::Graph>> graphs;
    for (std::size_t k = 0; k < classes(); ++k) {
      const std::vector<plan::Rewrite> all = with(k, more[k]);
      graphs.push_back(plan::rewrite(unpacked_[k], std::span(all).subspan(unpacked(k)), layouts()));
    }
    return graphs;
  }

  double makespan(graph::Classes graphs, std::span<const plan::Order> orders) const {
    return timetable_of(graphs, orders, costs_of_each(graphs, options_), options_).makespan;
  }

  Decision rewritten(const FittingRewrites& found) const {
    Decision decision{{}, found.graphs, orders_within_memory(policy_, found.graphs, options_)};
    const double makespan_ns = makespan(decision.graphs, decision.orders);
    for (std::size_t k = 0; k < classes(); ++k) {
      decision.rewrites.push_back(with(k, found.rewrites[k]));
      const plan::Selection selection{.order = policy_.name(),
                                      .orders = found.priced,
                                      .memory_limit = static_cast<std::uint64_t>(limit(k)),
                                      .keeps_limit = true,
                                      .makespan_ns = makespan_ns};
      for (plan::Reason& reason : decision.orders[k].reasons) {
        if (!reason.selection) reason.selection = selection;
        reason.selection->rewrites = plan::to_string(std::span<const plan::Rewrite>(found.rewrites[k]));
      }
    }
    return decision;
  }

  const Policy& policy_;
  const PolicyOptions& options_;
  const Decision& plain_;
  std::vector<std::shared_ptr<const graph::Graph>> unpacked_;
};

}  // namespace

std::vector<plan::Rewrite> rewrites_of(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                                       const PolicyOptions& options, std::span<const plan::Rewrite> chosen) {
  std::vector<plan::Rewrite> all;
  std::ptrdiff_t fusions = 0;  // which come first
  std::optional<plan::Rewrite> packing;
  const auto add = [&](const plan::Rewrite& each) {
    if (std::holds_alternative<plan::PackWeights>(each)) {
      packing = each;
    } else if (plan::is_fusion(each)) {
      if (std::ranges::find(all, each) == all.end()) all.insert(all.begin() + fusions++, each);
    } else {
      all.push_back(each);
    }
  };
  std::ranges::for_each(chosen, add);
  std::ranges::for_each(policy.rewrites(*plan::rewrite(graph, all), options), add);
  if (packing) all.push_back(*packing);
  return all;
}

Decision decide(graph::Classes classes, const Policy& policy, const PolicyOptions& options,
                std::span<const plan::Rewrite> chosen) {
  if (classes.size() > 1 && policy.scope() == PolicyScope::one_class) {
    throw UserError(fmt::format("policy {} orders one graph, and this program has {} pipeline stages", policy.name(),
                                classes.size()),
                    "a policy that orders pipelines: " + join(pipeline_policy_names()),
                    "choose one of these with --policy");
  }
  // A model's step without a pipeline has its micro-batches in program order; a recorded step has its own order.
  if (classes.size() == 1 && policy.scope() == PolicyScope::pipelines && classes.front()->has_opaque_tasks()) {
    throw UserError(fmt::format("policy {} orders pipeline stages, and this graph has one class", policy.name()),
                    "a policy that orders one graph: " + join(graph_policy_names()),
                    "choose one of these with --policy");
  }
  Decision decision;
  for (const auto& graph : classes) {
    decision.rewrites.push_back(rewrites_of(graph, policy, options, chosen));
    decision.graphs.push_back(plan::rewrite(graph, decision.rewrites.back(), options.weight_layouts));
  }
  LimitedOrders wanted = planned(decision.graphs, policy.orders(decision.graphs, without_limits(options)), options);
  if (!wanted.fits()) return RewrittenToFit(classes, policy, options, decision).decide(wanted);
  decision.orders = std::move(wanted.orders);
  return decision;
}

std::vector<plan::Plan> compile(graph::Classes classes, const Policy& policy, const PolicyOptions& options,
                                std::span<const plan::Rewrite> chosen) {
  Decision decision = decide(classes, policy, options, chosen);
  std::vector<plan::Plan> plans;
  for (std::size_t k = 0; k < classes.size(); ++k)
    plans.push_back(plan::make_plan(std::move(decision.graphs[k]), decision.orders[k], policy.name()));
  return plans;
}

plan::Plan compile_plan(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                        const PolicyOptions& options, std::span<const plan::Rewrite> chosen) {
  return std::move(compile({&graph, 1}, policy, options, chosen).front());
}

}  // namespace weft::policy
