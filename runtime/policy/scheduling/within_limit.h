// Makes list schedules keep a memory limit on the bytes that a plan takes, rather than on the bytes alive.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

struct LimitedOrder {
  plan::Order order;
  std::int64_t scratch_bytes = 0;  // of its plan; 0 without a memory limit
  std::int64_t limit = 0;          // the limit that order_under() got
};

/// A plan has gaps between tensors, so the plan of an order whose live tensors keep the limit may exceed it. Calls
/// order_under() with smaller and smaller limits, up to four times, until the plan of its order keeps the options'
/// limit. If none does, returns the order whose plan takes the least. `first`: the limit of the first call, 0 for the
/// options' limit.
LimitedOrder order_within_limit(const graph::Graph& graph, const PolicyOptions& options,
                                const std::function<plan::Order(const PolicyOptions&)>& order_under,
                                std::int64_t first = 0);

}  // namespace weft::policy
