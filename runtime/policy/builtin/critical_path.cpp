#include "runtime/policy/builtin/critical_path.h"

#include "runtime/policy/scheduling/list_schedule.h"
#include "runtime/policy/scheduling/within_limit.h"

namespace weft::policy {

plan::Order CriticalPathPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const cost::TaskCosts costs = costs_of(graph, options);
  const auto order_under = [&](const PolicyOptions& limited) {
    ListScheduler scheduler(graph, costs, limited);
    scheduler.run(upward_rank(graph, costs.ns));
    return scheduler.order({.kind = plan::ReasonKind::best_ready, .priority = plan::Priority::longest_path});
  };
  return shortest_within_limit(graph, costs, options, order_under).order;
}

}  // namespace weft::policy
