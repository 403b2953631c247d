#include "runtime/policy/compile_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "runtime/policy/fit_memory.h"

namespace weft::policy {

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

plan::Plan compile_plan(std::shared_ptr<const graph::Graph> graph, const Policy& policy, const PolicyOptions& options,
                        std::span<const plan::Rewrite> chosen) {
  graph = plan::rewrite(graph, rewrites_of(graph, policy, options, chosen), options.weight_layouts);
  const plan::Order order = order_within_memory(policy, *graph, options);
  return plan::make_plan(std::move(graph), order, policy.name());
}

}  // namespace weft::policy
