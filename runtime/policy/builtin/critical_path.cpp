#include "runtime/policy/builtin/critical_path.h"

#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {

plan::Order CriticalPathPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const std::shared_ptr<const graph::Graph> borrowed(std::shared_ptr<void>(), &graph);
  return std::move(orders({&borrowed, 1}, options).front());
}

std::vector<plan::Order> CriticalPathPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  const LimitedLists lists(classes, options);
  const std::vector<double> rank = upward_rank(lists.tasks());
  const plan::Reason longest_path{.kind = plan::ReasonKind::best_ready, .priority = plan::Priority::longest_path};
  return lists.shortest(by_priority(rank, longest_path)).orders;
}

}  // namespace weft::policy
