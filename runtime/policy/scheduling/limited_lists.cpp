#include "runtime/policy/scheduling/limited_lists.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/plan/plan.h"
#include "runtime/policy/fit_memory.h"
#include "runtime/policy/scheduling/arrangement.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

constexpr std::int64_t kGathersAhead[] = {1, 2, 3, 4, 8, 16};
constexpr int kTries = 4;
constexpr double kMargin = 0.99;  // of what a smaller limit leaves

}  // namespace

bool LimitedOrders::better_than(const LimitedOrders& other) const {
  if (fits() != other.fits()) return fits();
  return fits() ? makespan < other.makespan : excess < other.excess;
}

std::vector<cost::TaskCosts> costs_of_each(graph::Classes classes, const PolicyOptions& options) {
  std::vector<cost::TaskCosts> costs;
  for (const auto& graph : classes) costs.push_back(costs_of(*graph, options));
  return costs;
}

LimitedLists::Schedule by_priority(std::span<const double> priority, plan::Reason best) {
  return [priority, best = std::move(best)](ListScheduler& scheduler) {
    scheduler.run(priority);
    return scheduler.orders(best);
  };
}

LimitedLists::LimitedLists(graph::Classes classes, const PolicyOptions& options)
    : classes_(classes), options_(options), tasks_(classes, costs_of_each(classes, options), options.compute_streams) {
  for (const auto& graph : classes) {
    limits_.push_back(scratch_limit(*graph, options));
    limited_ = limited_ || limits_.back() > 0;
    gathers_ = gathers_ || std::ranges::any_of(graph->tasks(), is_gather);
  }
}

double LimitedLists::excess_of(std::span<const plan::Order> orders) const {
  double most = 0;
  for (std::size_t k = 0; k < orders.size(); ++k) {
    if (limits_[k] <= 0) continue;
    const std::int64_t bytes = plan::make_plan(classes_[k], orders[k], "tried").scratch_bytes;
    most = std::max(most, static_cast<double>(bytes) / static_cast<double>(limits_[k]));
  }
  return most;
}

LimitedOrders LimitedLists::weigh(std::vector<plan::Order> orders) const {
  LimitedOrders weighed{.orders = std::move(orders)};
  weighed.makespan = timetable_of(classes_, weighed.orders, tasks_.costs(), options_).makespan;
  weighed.excess = excess_of(weighed.orders);
  return weighed;
}

FitsMemory LimitedLists::fits() const {
  if (!limited_) return {};
  return [this](const ListScheduler& scheduler) {
    return excess_of(scheduler.orders({.kind = plan::ReasonKind::best_ready})) <= 1;
  };
}

std::vector<double> LimitedLists::priority_of(std::span<const plan::Order> orders) const {
  std::vector<double> priority = timetable_of(classes_, orders, tasks_.costs(), options_).start;
  for (double& value : priority) value = -value;
  return priority;
}

std::unique_ptr<ListScheduler> LimitedLists::scheduler(const LimitedOrders& list,
                                                       ListScheduler::Direction direction) const {
  PolicyOptions under = options_;
  under.gathers_ahead = list.gathers_ahead;
  return std::make_unique<ListScheduler>(tasks_, under, list.limits, direction);
}

LimitedOrders LimitedLists::within(const Schedule& schedule, std::int64_t gathers_ahead,
                                   std::span<const std::int64_t> from) const {
  LimitedOrders best, next{.limits = limits_, .gathers_ahead = gathers_ahead};
  if (!from.empty()) next.limits.assign(from.begin(), from.end());
  for (int i = 0; i < kTries; ++i) {
    next.orders = schedule(*scheduler(next));
    next.excess = excess_of(next.orders);
    if (i == 0 || next.excess < best.excess) best = next;
    if (best.fits()) break;
    for (std::int64_t& limit : next.limits) {
      if (limit <= 0) continue;
      limit = std::max<std::int64_t>(1, static_cast<std::int64_t>(kMargin * static_cast<double>(limit) / next.excess));
    }
  }
  best.makespan = timetable_of(classes_, best.orders, tasks_.costs(), options_).makespan;
  return best;
}

LimitedOrders LimitedLists::shortest(const Schedule& schedule) const {
  LimitedOrders best = within(schedule, options_.gathers_ahead);
  if (!gathers_) return best;
  for (const std::int64_t ahead : kGathersAhead) {
    if (LimitedOrders next = within(schedule, ahead); next.better_than(best)) best = std::move(next);
  }
  return best;
}

}  // namespace weft::policy
