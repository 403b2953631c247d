// List schedules of all rank classes of a step within each class's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/policy/scheduling/list_schedule.h"

namespace weft::policy {

/// Whether the plans of the scheduler's last run keep the memory limits: a scheduler keeps them on the bytes alive, and
/// a plan has gaps between its tensors.
using FitsMemory = std::function<bool(const ListScheduler&)>;

/// How often a schedule is made under smaller and smaller limits, because the plan exceeds a limit that its schedule
/// keeps.
inline constexpr int kLimitTries = 4;
inline constexpr double kLimitMargin = 0.99;  // of what a smaller limit leaves

/// An order of each class, weighed.
struct LimitedOrders {
  std::vector<plan::Order> orders = {};
  double makespan = 0;  // nanoseconds (timetable.h)
  double excess = 0;    // the largest share of its limit that a class's plan takes; 0 without limits
  std::vector<std::int64_t> scratch_bytes = {};  // of the plans by class; empty without limits
  // Of list schedules: the options under which they were made.
  std::vector<std::int64_t> limits = {};  // by class, on the bytes alive; 0: none
  std::int64_t gathers_ahead = 0;

  bool fits() const { return excess <= 1; }
  /// Whether it keeps limits that the other doesn't keep, or both do and it is shorter, or neither and it takes less.
  bool better_than(const LimitedOrders& other) const;
};

/// Orders with what their plans take, not timed.
LimitedOrders planned(graph::Classes classes, std::vector<plan::Order> orders, const PolicyOptions& options);

/// Whether orders keep the memory limits; empty without limits. The classes and options must outlive the function.
std::function<bool(const std::vector<plan::Order>&)> keeps_limits(graph::Classes classes, const PolicyOptions& options);

/// A class's limit is scratch_limit() of its graph. The graphs must outlive the object.
class LimitedLists {
 public:
  LimitedLists(graph::Classes classes, const PolicyOptions& options);

  const ClassTasks& tasks() const { return tasks_; }
  bool limited() const { return limited_; }
  /// Whether weights are gathered.
  bool gathers() const { return gathers_; }
  LimitedOrders weigh(std::vector<plan::Order> orders) const {
    return timed(planned(classes_, std::move(orders), options_));
  }
  /// Empty without limits. Refers to this object.
  FitsMemory fits() const;
  /// Priorities by which tasks start in the same order as in `orders`.
  std::vector<double> priority_of(std::span<const plan::Order> orders) const;

  /// A list scheduler under the options of `list`.
  std::unique_ptr<ListScheduler> scheduler(
      const LimitedOrders& list, ListScheduler::Direction direction = ListScheduler::Direction::forward) const;
  using Schedule = std::function<std::vector<plan::Order>(ListScheduler&)>;
  /// A plan may exceed a limit that the live tensors keep. So this schedules under smaller and smaller limits, up to
  /// kLimitTries times, until the plans keep the options' limits. If none does, returns the orders that exceed them by
  /// least. `from`: the limits of the first schedule; empty: the options'.
  LimitedOrders within(const Schedule& schedule, std::int64_t gathers_ahead,
                       std::span<const std::int64_t> from = {}) const;
  /// within() with several PolicyOptions::gathers_ahead: the best. Gathered weights that wait for their use take memory
  /// in which computations could run ahead, and their gathers take a link's bandwidth from other collectives. In graphs
  /// without gathers the options' own number is the only one that is tried.
  LimitedOrders shortest(const Schedule& schedule) const;

 private:
  LimitedOrders timed(LimitedOrders orders) const;

  graph::Classes classes_;
  PolicyOptions options_;
  ClassTasks tasks_;
  std::vector<std::int64_t> limits_;  // by class; 0: none
  bool limited_ = false, gathers_ = false;
};

/// Schedules by priorities, which must outlive the function. `best`: the reason of tasks that had the largest one.
LimitedLists::Schedule by_priority(std::span<const double> priority, plan::Reason best = ListScheduler::longest_path());

/// The costs of each class by the options' cost model.
std::vector<cost::TaskCosts> costs_of_each(graph::Classes classes, const PolicyOptions& options);

}  // namespace weft::policy
