#include "runtime/policy/builtin/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/policy/scheduling/limited_lists.h"
#include "runtime/policy/scheduling/timetable.h"
#include "runtime/policy/scheduling/window_search.h"

namespace weft::policy {
namespace {

constexpr double kReached = 1e-9;           // an order this close to a bound has reached it
constexpr std::int64_t kWindowShare = 500;  // of the nodes, for one window

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
  std::vector<plan::Order> start = portfolio_.orders(classes, options);
  const WindowSearch::Accepts accepts = [&](const std::vector<plan::Order>& orders) {
    return planned(classes, orders, options).fits();
  };
  const std::vector<cost::TaskCosts> costs = costs_of_each(classes, options);
  ClassTasks tasks(classes, costs, start);
  if (tasks.size() == 0 || !accepts(start)) return start;
  std::vector<plan::Order> first = freed(start, classes, costs, options, accepts);
  // Neither added edges nor a choice of streams were left out.
  const bool all_orders =
      std::ranges::all_of(first, [](const plan::Order& order) { return order.added_edges.empty(); }) &&
      options.compute_streams == 1;
  WindowSearch search(std::move(tasks), options, std::move(first), accepts);
  Slide slide(search, nodes_);
  bool complete = false;
  for (auto window = static_cast<std::size_t>(window_); slide.left() && !slide.reached() && !complete; window *= 2) {
    complete = slide.over(window);
    if (window >= search.tasks()) break;
  }
  const bool proved = slide.reached() || (complete && all_orders);
  std::vector<plan::Order> orders =
      search.orders({.table = &kReasons, .numbers = {static_cast<std::uint64_t>(window_)}});
  for (std::size_t k = 0; k < orders.size(); ++k) {
    const plan::Selection* chosen = plan::selection_of(start[k].reasons);
    plan::Selection selection = chosen == nullptr ? plan::Selection{} : *chosen;
    selection.order = fmt::format("exact search from {}{}", selection.order, proved ? ", proved optimal" : "");
    selection.makespan_ns = search.makespan();
    ++selection.orders;
    for (plan::Reason& reason : orders[k].reasons) reason.selection = selection;
  }
  return orders;
}

}  // namespace weft::policy
