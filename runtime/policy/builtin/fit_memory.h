// Keeps a plan within a memory limit, under every policy.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {

/// The reasons of a list schedule that prefers tasks in the policy's order.
inline constexpr plan::ReasonText kFittedTexts[] = {
    {"the ready task with the earliest start in the policy's own order"},
    {"first in program order of the ready tasks that tie on the earliest start in the policy's own order"},
};
inline constexpr plan::ReasonTable kFittedReasons{"fitted", kFittedTexts};

/// The orders of items 1 to 3 of orders_within_memory(), where the orders that the policy wants without a limit don't
/// fit. If no orders fit, the
/// result is the orders that exceed the limits by the least share.
LimitedOrders fitted_orders(const Policy& policy, graph::Classes classes, const PolicyOptions& options,
                            std::span<const plan::Order> wanted);

/// Throws the UserError for a step that has no orders within its limits. `least`: the orders that exceed the limits by
/// the least share. `rewritten`: words on the rewrites that were tried too.
[[noreturn]] void refuse_memory(const Policy& policy, graph::Classes classes, const PolicyOptions& options,
                                const LimitedOrders& least, std::string_view rewritten = "");

/// The policy's orders of the classes, whose plans take at most `options.memory` bytes of state and scratch each, and
/// at most `options.memory_limit` bytes of scratch (0: no limit). The orders that the policy makes without a limit
/// count if their plans fit. Otherwise the first item of this list counts of which the plans fit:
/// 1. the policy's orders under the limit, which list schedules and searches keep by themselves;
/// 2. the shortest of a list schedule under the limit that prefers tasks in the policy's order; of serial program
///    order; and of the serial order that starts, of the ready tasks, the one that leaves the fewest bytes alive;
/// 3. of a single graph of at most seven tasks any serial order.
/// Orders of 2 and 3 say so in their reasons (plan::Selection). Throws UserError, naming the least memory found, if
/// none fits, and whatever the policy throws.
std::vector<plan::Order> orders_within_memory(const Policy& policy, graph::Classes classes,
                                              const PolicyOptions& options);

}  // namespace weft::policy
