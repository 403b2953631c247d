#include "runtime/policy/scheduling/limited_lists.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/plan/plan.h"
#include "runtime/policy/scheduling/program_order.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

constexpr std::int64_t kGathersAhead[] = {1, 2, 3, 4, 8, 16};

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

LimitedOrders planned(graph::Classes classes, std::vector<plan::Order> orders, const PolicyOptions& options) {
  LimitedOrders result{.orders = std::move(orders)};
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const std::int64_t limit = scratch_limit(*classes[k], options);
    if (limit <= 0) continue;
    if (options.is_unwanted && options.is_unwanted()) throw PlanningStopped();
    result.scratch_bytes.push_back(plan::make_plan(classes[k], result.orders[k], "tried").scratch_bytes);
    const double share = static_cast<double>(result.scratch_bytes.back()) / static_cast<double>(limit);
    result.excess = std::max(result.excess, share);
  }
  return result;
}

std::function<bool(const std::vector<plan::Order>&)> keeps_limits(graph::Classes classes,
                                                                  const PolicyOptions& options) {
  const auto limited = [&](const auto& graph) { return scratch_limit(*graph, options) > 0; };
  if (std::ranges::none_of(classes, limited)) return {};
  return
      [classes, &options](const std::vector<plan::Order>& orders) { return planned(classes, orders, options).fits(); };
}

LimitedOrders LimitedLists::timed(LimitedOrders orders) const {
  orders.makespan = timetable_of(classes_, orders.orders, tasks_.costs(), options_).makespan;
  return orders;
}

FitsMemory LimitedLists::fits() const {
  if (!limited_) return {};
  return [this](const ListScheduler& scheduler) { return planned(classes_, scheduler.orders(), options_).fits(); };
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
  LimitedOrders best, under{.limits = limits_, .gathers_ahead = gathers_ahead};
  if (!from.empty()) under.limits.assign(from.begin(), from.end());
  for (int i = 0; i < kLimitTries; ++i) {
    LimitedOrders next = planned(classes_, schedule(*scheduler(under)), options_);
    next.limits = under.limits;
    next.gathers_ahead = gathers_ahead;
    const double excess = next.excess;
    if (i == 0 || excess < best.excess) best = std::move(next);
    if (best.fits()) break;
    for (std::int64_t& limit : under.limits)
      limit = std::max<std::int64_t>(1, static_cast<std::int64_t>(kLimitMargin * static_cast<double>(limit) / excess));
  }
  return timed(std::move(best));
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
