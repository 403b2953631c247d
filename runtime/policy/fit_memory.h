// Keeps a plan within a memory limit, under every policy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// Bytes of the tensors that outlive a step: parameters, optimizer state, …
std::int64_t state_bytes(const graph::Graph& graph);

/// Bytes of scratch that a plan of the graph may take under the options; 0: any number.
std::int64_t scratch_limit(const graph::Graph& graph, const PolicyOptions& options);

/// The order that a policy makes without a limit, and whether its plan keeps the options' limits.
struct WantedOrder {
  plan::Order order;
  bool fits = true;
  std::int64_t scratch_bytes = 0;  // of its plan; 0 if the options have no limit
};
WantedOrder wanted_order(const Policy& policy, const graph::Graph& graph, const PolicyOptions& options);

/// Items 1 to 3 of order_within_memory(), for a wanted order that doesn't fit.
struct FittedOrder {
  std::optional<plan::Order> order;  // nullopt: none fits
  std::int64_t least_scratch = 0;    // of the plans that were tried
};
FittedOrder fitted_order(const Policy& policy, const graph::Graph& graph, const PolicyOptions& options,
                         const plan::Order& wanted);

/// Throws the UserError of a step of which no order fits. `rewritten`: words on the rewrites that were tried too.
[[noreturn]] void refuse_memory(const Policy& policy, const graph::Graph& graph, const PolicyOptions& options,
                                std::int64_t least_scratch, std::string_view rewritten = "");

/// The policy's order of the graph, whose plan takes at most `options.memory` bytes of state and scratch, and at most
/// `options.memory_limit` bytes of scratch (0: no limit). The order that the policy makes without a limit counts if its
/// plan fits. Otherwise the first item of this list counts of which a plan fits:
/// 1. the policy's order under the limit, which list schedules and searches keep by themselves;
/// 2. the shortest of a list schedule under the limit that prefers tasks in the policy's order; of serial program
///    order; and of the serial order that starts, of the ready tasks, the one that leaves the fewest bytes alive;
/// 3. in graphs of at most seven tasks any serial order.
/// Orders of 2 and 3 say so in their reasons (plan::Selection). Throws UserError, naming the least memory found, if
/// none fits, and whatever the policy throws.
plan::Order order_within_memory(const Policy& policy, const graph::Graph& graph, const PolicyOptions& options);

}  // namespace weft::policy
