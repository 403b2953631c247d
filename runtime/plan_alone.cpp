#include "runtime/plan_alone.h"

#include <utility>

namespace weft {

std::vector<Rewrite> rewrites_of(const std::shared_ptr<const Graph>& graph, const Policy& policy,
                                 const PolicyOptions& options, std::span<const Rewrite> chosen) {
  std::vector<Rewrite> all(chosen.begin(), chosen.end());
  const std::vector<Rewrite> wanted = policy.rewrites(*rewrite(graph, chosen), options);
  all.insert(all.end(), wanted.begin(), wanted.end());
  return all;
}

Plan plan_alone(std::shared_ptr<const Graph> graph, const Policy& policy, const PolicyOptions& options,
                std::span<const Rewrite> chosen) {
  graph = rewrite(graph, rewrites_of(graph, policy, options, chosen));
  const Order order = policy.order(*graph, options);
  return make_plan(std::move(graph), order, policy.name());
}

}  // namespace weft
