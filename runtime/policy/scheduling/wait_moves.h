// The move "start when X is done": holds tasks of finished orders back where that makes the step shorter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/class_tasks.h"

namespace weft::policy {

/// Adds the edge by which node `to` starts after node `from` is done, in the first class that has members of both.
void add_wait(const ClassTasks& tasks, std::uint32_t from, std::uint32_t to, std::span<plan::Order> orders);

struct HeldBack {
  std::vector<plan::Order> orders;  // by class; those that were given, if no wait makes the step shorter
  std::size_t waits = 0;            // edges that were added
  double makespan = 0;              // timetable.h's
};

/// The reason of a task that is held back.
enum WaitReason : std::uint16_t { kHeldBack };
inline constexpr plan::ReasonText kWaitTexts[] = {
    {"held back until task {} is done, since both at once would make the step longer"}};
inline constexpr plan::ReasonTable kWaitReasons{"waits", kWaitTexts};

/// Under contention a task that starts as soon as it can may slow down a task that is more urgent. So this takes the
/// tasks on the longest path that take longer than alone, and holds back others that run beside them, until they are
/// done: first the pairs whose lost time is greatest, less what the delay costs. Of equal layers and micro-batches it
/// tries the same pair in all of them at once, and then the one alone. A change stays if the step is shorter and
/// `accepts`, if given, takes the orders. At last each wait is left out again if the step is no longer without it.
/// Tries at most `tries` timetables; none if no task's time depends on what runs beside it. Equal inputs give equal
/// results. `orders`: of one order of starts (timetable.h), whose added edges stay.
HeldBack hold_back(const ClassTasks& tasks, const std::vector<plan::Order>& orders, const PolicyOptions& options,
                   std::int64_t tries, const std::function<bool(const std::vector<plan::Order>&)>& accepts = {});

}  // namespace weft::policy
