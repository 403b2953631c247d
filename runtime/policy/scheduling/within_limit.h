// Makes list schedules keep a memory limit on the bytes that a plan takes, rather than on the bytes alive.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/list_schedule.h"

namespace weft::policy {

/// Whether a plan of the scheduler's last run keeps the memory limit: a scheduler keeps it on the bytes alive, and a
/// plan has gaps between its tensors.
using FitsMemory = std::function<bool(const ListScheduler&)>;

/// Empty without a memory limit. The graph has to outlive the function.
FitsMemory fits_memory(const graph::Graph& graph, const PolicyOptions& options);

struct LimitedOrder {
  plan::Order order;
  std::int64_t scratch_bytes = 0;  // of its plan; 0 without a memory limit
  // The options that order_under() got:
  std::int64_t limit = 0;
  std::int64_t gathers_ahead = 0;
  double makespan = 0;  // of shortest_within_limit(), in nanoseconds
};

/// A plan has gaps between tensors, so the plan of an order whose live tensors keep the limit may exceed it. Calls
/// order_under() with smaller and smaller limits, up to four times, until the plan of its order keeps the options'
/// limit. If none does, returns the order whose plan takes the least. `first`: the limit of the first call, 0 for the
/// options' limit.
LimitedOrder order_within_limit(const graph::Graph& graph, const PolicyOptions& options,
                                const std::function<plan::Order(const PolicyOptions&)>& order_under,
                                std::int64_t first = 0);

/// order_within_limit() with several PolicyOptions::gathers_ahead: of the orders whose plans keep the limit the
/// shortest (timetable.h), else the one whose plan takes the least. Gathered weights that wait for their use take
/// memory in which computations could run ahead, and their gathers take a link's bandwidth from other collectives. In a
/// graph without gathers the options' own number is the only one that is tried.
LimitedOrder shortest_within_limit(const graph::Graph& graph, const cost::TaskCosts& costs,
                                   const PolicyOptions& options,
                                   const std::function<plan::Order(const PolicyOptions&)>& order_under);

}  // namespace weft::policy
