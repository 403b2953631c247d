#include "runtime/policy/scheduling/within_limit.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/plan/plan.h"

namespace weft::policy {

LimitedOrder order_within_limit(const graph::Graph& graph, const PolicyOptions& options,
                                const std::function<plan::Order(const PolicyOptions&)>& order_under,
                                std::int64_t first) {
  constexpr int kTries = 4;
  if (options.memory_limit <= 0) return {order_under(options), 0, 0};
  const std::shared_ptr<const graph::Graph> borrowed(std::shared_ptr<void>(), &graph);
  PolicyOptions tried = options;
  if (first > 0) tried.memory_limit = std::min(first, options.memory_limit);
  LimitedOrder best;
  for (int i = 0; i < kTries; ++i) {
    LimitedOrder next{order_under(tried), 0, tried.memory_limit};
    next.scratch_bytes = plan::make_plan(borrowed, next.order, "list").scratch_bytes;
    const double excess = static_cast<double>(next.scratch_bytes) / static_cast<double>(options.memory_limit);
    if (i == 0 || next.scratch_bytes < best.scratch_bytes) best = std::move(next);
    if (best.scratch_bytes <= options.memory_limit) break;
    tried.memory_limit =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(0.99 * static_cast<double>(tried.memory_limit) / excess));
  }
  return best;
}

}  // namespace weft::policy
