#include "runtime/policy/scheduling/joint_lists.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/plan/plan.h"
#include "runtime/policy/fit_memory.h"
#include "runtime/policy/scheduling/arrangement.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

constexpr std::int64_t kWeightsAhead[] = {2, 8};
constexpr int kTriedParts = 4;
constexpr double kPartLeft = 0.99;  // of what a smaller part would leave

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

JointLists::JointLists(graph::Classes classes, const PolicyOptions& options)
    : classes_(classes), options_(options), tasks_(classes, costs_of_each(classes, options), options.compute_streams) {
  for (const auto& graph : classes) {
    limits_.push_back(scratch_limit(*graph, options));
    limited_ = limited_ || limits_.back() > 0;
    gathers_ = gathers_ || std::ranges::any_of(graph->tasks(), is_gather);
  }
}

double JointLists::excess_of(std::span<const plan::Order> orders) const {
  double most = 0;
  for (std::size_t k = 0; k < orders.size(); ++k) {
    if (limits_[k] <= 0) continue;
    const std::int64_t bytes = plan::make_plan(classes_[k], orders[k], "tried").scratch_bytes;
    most = std::max(most, static_cast<double>(bytes) / static_cast<double>(limits_[k]));
  }
  return most;
}

LimitedOrders JointLists::weigh(std::vector<plan::Order> orders) const {
  LimitedOrders weighed{.orders = std::move(orders)};
  weighed.makespan = timetable_of(tasks_, weighed.orders, options_).makespan;
  weighed.excess = excess_of(weighed.orders);
  return weighed;
}

FitsMemory JointLists::fits() const {
  if (!limited_) return {};
  return [this](const ListScheduler& scheduler) {
    return excess_of(scheduler.orders({.kind = plan::ReasonKind::best_ready})) <= 1;
  };
}

std::vector<double> JointLists::priority_of(std::span<const plan::Order> orders) const {
  std::vector<double> priority = timetable_of(tasks_, orders, options_).start;
  for (double& value : priority) value = -value;
  return priority;
}

std::unique_ptr<ListScheduler> JointLists::scheduler(double part, std::int64_t gathers_ahead,
                                                     ListScheduler::Direction direction) const {
  PolicyOptions under = options_;
  under.gathers_ahead = gathers_ahead;
  std::vector<std::int64_t> limits;
  for (const std::int64_t limit : limits_)
    limits.push_back(
        limit <= 0 ? 0 : std::max<std::int64_t>(1, static_cast<std::int64_t>(part * static_cast<double>(limit))));
  return std::make_unique<ListScheduler>(tasks_, under, limits, direction);
}

LimitedOrders JointLists::within_limits(const Schedule& schedule, std::int64_t gathers_ahead, double part) const {
  LimitedOrders best;
  for (int i = 0; i < kTriedParts; ++i) {
    const auto under = scheduler(part, gathers_ahead, ListScheduler::Direction::forward);
    LimitedOrders next = weigh(schedule(*under));
    next.part = part;
    next.gathers_ahead = gathers_ahead;
    part *= kPartLeft / std::max(1.0, next.excess);
    if (i == 0 || next.better_than(best)) best = std::move(next);
    if (best.fits()) break;
  }
  return best;
}

LimitedOrders JointLists::shortest(const Schedule& schedule) const {
  LimitedOrders best = within_limits(schedule, options_.gathers_ahead);
  if (!gathers_) return best;
  for (const std::int64_t ahead : kWeightsAhead) {
    if (LimitedOrders next = within_limits(schedule, ahead); next.better_than(best)) best = std::move(next);
  }
  return best;
}

}  // namespace weft::policy
