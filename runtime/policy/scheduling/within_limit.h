// Holds list schedules to a memory limit that counts what a plan takes, not what is alive.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

struct LimitedOrder {
  plan::Order order;
  std::int64_t scratch_bytes = 0;  // of its plan; 0 without a memory limit
  std::int64_t limit = 0;          // under which order_under() made it
};

/// A plan also takes room for the gaps between tensors, so an order whose tensors keep the options' limit may be above
/// it. Asks order_under() again with a smaller limit, up to four times in all, until the plan of its order keeps the
/// options' limit; if none does, the order that takes the least. `first`: the limit to begin with, 0 for the options'.
LimitedOrder order_within_limit(const graph::Graph& graph, const PolicyOptions& options,
                                const std::function<plan::Order(const PolicyOptions&)>& order_under,
                                std::int64_t first = 0);

}  // namespace weft::policy
