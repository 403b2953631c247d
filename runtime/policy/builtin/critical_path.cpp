#include "runtime/policy/builtin/critical_path.h"

#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {

std::vector<plan::Order> CriticalPathPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  const LimitedLists lists(classes, options);
  const std::vector<double> rank = upward_rank(lists.tasks());
  return lists.shortest(by_priority(rank)).orders;
}

}  // namespace weft::policy
