#include "runtime/policy/builtin/critical_path.h"

#include "runtime/policy/scheduling/joint_lists.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "runtime/policy/scheduling/within_limit.h"

namespace weft::policy {
namespace {

plan::Reason longest_path() {
  return {.kind = plan::ReasonKind::best_ready, .priority = plan::Priority::longest_path};
}

}  // namespace

plan::Order CriticalPathPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const cost::TaskCosts costs = costs_of(graph, options);
  const auto order_under = [&](const PolicyOptions& limited) {
    ListScheduler scheduler(graph, costs, limited);
    scheduler.run(upward_rank(graph, costs.ns));
    return scheduler.order(longest_path());
  };
  return shortest_within_limit(graph, costs, options, order_under).order;
}

std::vector<plan::Order> CriticalPathPolicy::orders(std::span<const std::shared_ptr<const graph::Graph>> classes,
                                                    const PolicyOptions& options) const {
  if (classes.size() == 1) return orders_of_each(*this, classes, options);
  const JointLists lists(classes, options);
  const std::vector<double> rank = upward_rank(lists.tasks());
  const auto schedule = [&](ListScheduler& scheduler) {
    scheduler.run(rank);
    return scheduler.orders(longest_path());
  };
  return lists.shortest(schedule).orders;
}

}  // namespace weft::policy
