#include "runtime/policy/builtin/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/policy/scheduling/limited_lists.h"
#include "runtime/policy/scheduling/step_search.h"
#include "runtime/policy/scheduling/timetable.h"
#include "runtime/policy/scheduling/wait_moves.h"
#include "runtime/policy/scheduling/window_search.h"

namespace weft::policy {
namespace {

constexpr double kReached = 1e-9;           // an order this close to a bound has reached it
constexpr std::int64_t kWindowShare = 500;  // of the nodes, for one window
constexpr std::size_t kMostOfStep = 64;     // tasks; plans of larger steps are too many to try

/// Slides a window over the step until none of its places makes the order shorter.
class Slide {
 public:
  Slide(WindowSearch& search, std::int64_t nodes) : search_(search), most_(nodes), left_(nodes) {}

  bool reached() const { return search_.makespan() <= search_.bound() * (1 + kReached); }
  bool left() const { return left_ > 0; }
  /// Returns whether one window held the whole step and left no order out.
  bool over(std::size_t window) {
    if (search_.tasks() <= window) {
      const WindowSearch::Outcome outcome = search_.search(0, search_.tasks(), left_);
      left_ -= outcome.nodes;
      return outcome.complete;
    }
    const std::int64_t most = std::max<std::int64_t>(1, most_ / kWindowShare);
    for (bool shorter = true; shorter;) {
      shorter = false;
      for (std::size_t first = 0; first < search_.tasks() && left_ > 0 && !reached(); first += (window + 1) / 2) {
        const std::size_t count = std::min(window, search_.tasks() - first);
        const WindowSearch::Outcome outcome = search_.search(first, count, std::min(left_, most));
        left_ -= outcome.nodes;
        shorter = shorter || outcome.shorter;
      }
      if (reached()) break;
    }
    return false;
  }

 private:
  WindowSearch& search_;
  std::int64_t most_, left_;
};

/// The portfolio's orders; without their added edges if the step is as short without them, since they would hold in all
/// orders that are tried.
std::vector<plan::Order> freed(const std::vector<plan::Order>& start, graph::Classes classes,
                               std::span<const cost::TaskCosts> costs, const PolicyOptions& options,
                               const WindowSearch::Accepts& accepts) {
  if (std::ranges::all_of(start, [](const plan::Order& order) { return order.added_edges.empty(); })) return start;
  std::vector<plan::Order> without = start;
  for (plan::Order& order : without) order.added_edges.clear();
  const double before = timetable_of(classes, start, costs, options).makespan;
  const bool better = timetable_of(classes, without, costs, options).makespan <= before && accepts(without);
  return better ? without : start;
}

}  // namespace

ExactPolicy::ExactPolicy(PolicyParameters& parameters)
    : window_(parameters.integer("window", kWindow, 2, 1'000'000)),
      nodes_(parameters.integer("nodes", kNodes, 0, 1'000'000'000'000)),
      portfolio_(parameters) {
  chunks_ = portfolio_.chunks();
}

std::vector<plan::Order> ExactPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  std::vector<plan::Order> start = portfolio_.orders_without_waits(classes, options);
  const Accepts accepts = [&](const std::vector<plan::Order>& orders) {
    return planned(classes, orders, options).fits();
  };
  const std::vector<cost::TaskCosts> costs = costs_of_each(classes, options);
  const ClassTasks tasks(classes, costs, start);
  if (tasks.size() == 0 || !accepts(start)) return start;
  Found found = in_windows(tasks, freed(start, classes, costs, options, accepts), options, accepts);
  if (found.proof != plan::Proof::optimal) hold_some_back(found, start, classes, options);
  if (found.proof != plan::Proof::optimal && tasks.size() <= kMostOfStep)
    search_all_plans(found, ClassTasks(classes, costs, options.compute_streams), options, accepts);
  for (std::size_t k = 0; k < found.orders.size(); ++k) {
    const plan::Selection* chosen = plan::selection_of(start[k].reasons);
    plan::Selection selection = chosen == nullptr ? plan::Selection{} : *chosen;
    selection.order = fmt::format("exact search from {}{}", selection.order, found.how);
    selection.makespan_ns = found.makespan;
    selection.proof = found.proof;
    ++selection.orders;
    for (plan::Reason& reason : found.orders[k].reasons) reason.selection = selection;
  }
  return std::move(found.orders);
}

ExactPolicy::Found ExactPolicy::in_windows(const ClassTasks& tasks, std::vector<plan::Order> first,
                                           const PolicyOptions& options, const Accepts& accepts) const {
  // Neither added edges nor a choice of streams were left out.
  const bool all_orders =
      std::ranges::all_of(first, [](const plan::Order& order) { return order.added_edges.empty(); }) &&
      options.compute_streams == 1;
  WindowSearch search(tasks, options, std::move(first), accepts);
  Slide slide(search, nodes_);
  bool complete = false;
  for (auto window = static_cast<std::size_t>(window_); slide.left() && !slide.reached() && !complete; window *= 2) {
    complete = slide.over(window);
    if (window >= search.tasks()) break;
  }
  Found found{.orders = search.orders({.table = &kReasons, .numbers = {static_cast<std::uint64_t>(window_)}}),
              .makespan = search.makespan()};
  if (complete && all_orders) found.proof = plan::Proof::best_without_waits;
  // Bounds hold for plans with waits, too. Without contention each task takes its cost, so that every start is a
  // longest path through queues and edges. A wait is one more edge, which makes no path shorter: of the plans with the
  // same queues the one without waits is the shortest, and all queues were tried.
  const bool contends = RunningLanes(tasks, options).contends();
  if (slide.reached() || (complete && all_orders && !contends)) found.proof = plan::Proof::optimal;
  return found;
}

void ExactPolicy::hold_some_back(Found& found, const std::vector<plan::Order>& start, graph::Classes classes,
                                 const PolicyOptions& options) const {
  const auto take = [&](const std::vector<plan::Order>& orders) {
    HeldBack held = portfolio_.held_back(classes, orders, options);
    if (held.waits == 0 || held.makespan >= found.makespan) return;
    found = {.orders = std::move(held.orders), .makespan = held.makespan};
    found.how = fmt::format(", {} held back", held.waits);
  };
  take(found.orders);
  take(start);
}

void ExactPolicy::search_all_plans(Found& found, const ClassTasks& tasks, const PolicyOptions& options,
                                   const Accepts& accepts) const {
  StepSearch search(tasks, options, found.makespan, accepts);
  const StepSearch::Outcome outcome = search.search(nodes_);
  std::vector<plan::Order> shorter = search.orders({.table = &kReasons, .code = kOfAllPlans});
  if (!shorter.empty()) found = {.orders = std::move(shorter), .makespan = search.makespan()};
  if (outcome.complete) found.proof = plan::Proof::optimal;
}

}  // namespace weft::policy
