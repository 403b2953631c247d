#include "runtime/policies/critical_path.h"

#include "runtime/policies/list_schedule.h"

namespace weft {

Order CriticalPathPolicy::order(const Graph& graph, const PolicyOptions& options) const {
  const TaskCosts costs = costs_of(graph, options);
  ListScheduler scheduler(graph, costs, options);
  scheduler.run(upward_rank(graph, costs.ns));
  return scheduler.order("the longest path to the end of the step");
}

}  // namespace weft
