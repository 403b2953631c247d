#include "runtime/policy/compile_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

namespace weft {

std::vector<Rewrite> rewrites_of(const std::shared_ptr<const Graph>& graph, const Policy& policy,
                                 const PolicyOptions& options, std::span<const Rewrite> chosen) {
  std::vector<Rewrite> all;
  std::optional<Rewrite> packing;
  const auto add = [&](const Rewrite& each) {
    if (std::holds_alternative<PackWeights>(each)) {
      packing = each;
    } else if (std::holds_alternative<FuseGelu>(each)) {
      if (!fuses_gelu(all)) all.insert(all.begin(), each);
    } else {
      all.push_back(each);
    }
  };
  std::ranges::for_each(chosen, add);
  std::ranges::for_each(policy.rewrites(*rewrite(graph, all), options), add);
  if (packing) all.push_back(*packing);
  return all;
}

Plan compile_plan(std::shared_ptr<const Graph> graph, const Policy& policy, const PolicyOptions& options,
                  std::span<const Rewrite> chosen) {
  graph = rewrite(graph, rewrites_of(graph, policy, options, chosen), options.weight_layouts);
  const Order order = policy.order(*graph, options);
  return make_plan(std::move(graph), order, policy.name());
}

}  // namespace weft
