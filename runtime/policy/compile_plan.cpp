#include "runtime/policy/compile_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "graph/analysis.h"
#include "runtime/policy/fit_memory.h"
#include "runtime/policy/rewrite_to_fit.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

/// Chooses between the plain graph, with the rewrites that it has anyway, and one that takes less memory.
class RewrittenToFit {
 public:
  RewrittenToFit(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy, const PolicyOptions& options,
                 const std::vector<plan::Rewrite>& given)
      : policy_(policy), options_(options), given_(given), packed_(plan::packs_weights(given)) {
    const std::span<const plan::Rewrite> unpacked = std::span(given_).first(given_.size() - (packed_ ? 1 : 0));
    unpacked_ = plan::rewrite(graph, unpacked, options.weight_layouts);
  }

  Decision decide(const std::shared_ptr<const graph::Graph>& plain, const WantedOrder& wanted) const {
    PolicyOptions limited = options_;
    limited.memory = 0;
    limited.memory_limit = scratch_limit(*plain, options_);
    const FittingRewrites found =
        find_fitting_rewrites([this](std::span<const plan::Rewrite> more) { return graph_after(more); }, limited);
    FittedOrder fitted{.order = std::nullopt, .least_scratch = wanted.scratch_bytes};
    // Searching orders of a graph of which none fits takes longest.
    if (!found.possible || graph::least_scratch_bytes(*plain) <= limited.memory_limit)
      fitted = fitted_order(policy_, *plain, limited, wanted.order);
    if (found.graph) {
      Decision decision = rewritten(found, limited.memory_limit);
      const double plain_ns = fitted.order ? makespan(*plain, *fitted.order) : kInfinite;
      if (makespan(*decision.graph, decision.order) < plain_ns) return decision;
    }
    if (fitted.order) return {given_, plain, *std::move(fitted.order)};
    std::int64_t least = std::min(wanted.scratch_bytes, fitted.least_scratch);
    if (found.possible) least = std::min(least, found.least_scratch);
    refuse_memory(policy_, *plain, options_, least,
                  found.possible ? ", also with layers computed again and weights gathered again" : "");
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  /// The rewrites with further ones, before the packing of weights.
  std::vector<plan::Rewrite> with(std::span<const plan::Rewrite> more) const {
    std::vector<plan::Rewrite> all = given_;
    all.insert(all.end() - (packed_ ? 1 : 0), more.begin(), more.end());
    return all;
  }

  std::shared_ptr<const graph::Graph> graph_after(std::span<const plan::Rewrite> more) const {
    const std::vector<plan::Rewrite> all = with(more);
    const std::size_t done = given_.size() - (packed_ ? 1 : 0);
    return plan::rewrite(unpacked_, std::span(all).subspan(done), options_.weight_layouts);
  }

  double makespan(const graph::Graph& graph, const plan::Order& order) const {
    return timetable_of(graph, order, costs_of(graph, options_), options_).makespan;
  }

  Decision rewritten(const FittingRewrites& found, std::int64_t limit) const {
    Decision decision{with(found.rewrites), found.graph, order_within_memory(policy_, *found.graph, options_)};
    plan::Selection selection{.order = policy_.name(),
                              .orders = found.priced,
                              .memory_limit = static_cast<std::uint64_t>(limit),
                              .keeps_limit = true,
                              .makespan_ns = makespan(*decision.graph, decision.order)};
    for (plan::Reason& reason : decision.order.reasons) {
      if (!reason.selection) reason.selection = selection;
      reason.selection->rewrites = plan::to_string(std::span<const plan::Rewrite>(found.rewrites));
    }
    return decision;
  }

  const Policy& policy_;
  const PolicyOptions& options_;
  const std::vector<plan::Rewrite>& given_;
  const bool packed_;  // are weights packed, which comes last?
  std::shared_ptr<const graph::Graph> unpacked_;
};

}  // namespace

std::vector<plan::Rewrite> rewrites_of(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                                       const PolicyOptions& options, std::span<const plan::Rewrite> chosen) {
  std::vector<plan::Rewrite> all;
  std::optional<plan::Rewrite> packing;
  const auto add = [&](const plan::Rewrite& each) {
    if (std::holds_alternative<plan::PackWeights>(each)) {
      packing = each;
    } else if (std::holds_alternative<plan::FuseGelu>(each)) {
      if (!plan::fuses_gelu(all)) all.insert(all.begin(), each);
    } else {
      all.push_back(each);
    }
  };
  std::ranges::for_each(chosen, add);
  std::ranges::for_each(policy.rewrites(*plan::rewrite(graph, all), options), add);
  if (packing) all.push_back(*packing);
  return all;
}

Decision decide(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy, const PolicyOptions& options,
                std::span<const plan::Rewrite> chosen) {
  const std::vector<plan::Rewrite> given = rewrites_of(graph, policy, options, chosen);
  const auto plain = plan::rewrite(graph, given, options.weight_layouts);
  if (!policy.rewrites_to_fit() || scratch_limit(*plain, options) == 0) {
    return {given, plain, order_within_memory(policy, *plain, options)};
  }
  WantedOrder wanted = wanted_order(policy, *plain, options);
  if (wanted.fits) return {given, plain, std::move(wanted.order)};
  return RewrittenToFit(graph, policy, options, given).decide(plain, wanted);
}

plan::Plan compile_plan(const std::shared_ptr<const graph::Graph>& graph, const Policy& policy,
                        const PolicyOptions& options, std::span<const plan::Rewrite> chosen) {
  Decision decision = decide(graph, policy, options, chosen);
  return plan::make_plan(std::move(decision.graph), decision.order, policy.name());
}

}  // namespace weft::policy
