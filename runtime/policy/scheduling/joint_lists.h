// List schedules of all rank classes of a pipeline within each class's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/policy/pipeline/joint_tasks.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "runtime/policy/scheduling/within_limit.h"

namespace weft::policy {

/// An order of each class, weighed.
struct LimitedOrders {
  std::vector<plan::Order> orders;
  double makespan = 0;  // nanoseconds (timetable.h)
  double excess = 0;    // the largest share of its limit that a class's plan takes; 0 without limits
  // Of list schedules: the options under which they were made.
  double part = 1;  // of the limits, kept on the bytes alive
  std::int64_t gathers_ahead = 0;

  bool fits() const { return excess <= 1; }
  /// Whether it keeps limits that the other doesn't keep, or both do and it is shorter, or neither and it takes less.
  bool better_than(const LimitedOrders& other) const;
};

/// What within_limit.h is to one graph. A class's limit is scratch_limit() of its graph.
class JointLists {
 public:
  JointLists(graph::Classes classes, const PolicyOptions& options);

  const JointTasks& tasks() const { return tasks_; }
  bool limited() const { return limited_; }
  LimitedOrders weigh(std::vector<plan::Order> orders) const;
  /// Whether the plans of the scheduler's last run keep the limits; empty without limits.
  FitsMemory fits() const;
  /// Priorities by which tasks start in the same order as in `orders`.
  std::vector<double> priority_of(std::span<const plan::Order> orders) const;

  std::unique_ptr<ListScheduler> scheduler(double part, std::int64_t gathers_ahead,
                                           ListScheduler::Direction direction) const;
  using Schedule = std::function<std::vector<plan::Order>(ListScheduler&)>;
  /// Schedules under smaller and smaller parts of the limits, from `part` on, up to four times, until the plans keep
  /// the limits. If none does, returns the orders that exceed them by least.
  LimitedOrders within_limits(const Schedule& schedule, std::int64_t gathers_ahead, double part = 1) const;
  /// within_limits() with several numbers of weights that are gathered ahead, if weights are gathered: the best.
  LimitedOrders shortest(const Schedule& schedule) const;

 private:
  double excess_of(std::span<const plan::Order> orders) const;

  graph::Classes classes_;
  PolicyOptions options_;
  JointTasks tasks_;
  std::vector<std::int64_t> limits_;  // by class; 0: none
  bool limited_ = false, gathers_ = false;
};

/// The costs of each class by the options' cost model.
std::vector<cost::TaskCosts> costs_of_each(graph::Classes classes, const PolicyOptions& options);

}  // namespace weft::policy
