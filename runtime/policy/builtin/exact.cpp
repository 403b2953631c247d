#include "runtime/policy/builtin/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "runtime/plan/plan.h"
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

/// The portfolio's order; without its added edges if it is as short without them, since they would hold in all orders
/// that are tried.
plan::Order freed(const plan::Order& start, const graph::Graph& graph, const cost::TaskCosts& costs,
                  const PolicyOptions& options, const WindowSearch::Accepts& accepts) {
  if (start.added_edges.empty()) return start;
  plan::Order without = start;
  without.added_edges.clear();
  const double before = timetable_of(graph, start, costs, options).makespan;
  const bool better = timetable_of(graph, without, costs, options).makespan <= before && accepts(without);
  return better ? without : start;
}

}  // namespace

ExactPolicy::ExactPolicy(PolicyParameters& parameters)
    : window_(parameters.integer("window", kWindow, 2, 1'000'000)),
      nodes_(parameters.integer("nodes", kNodes, 0, 1'000'000'000'000)),
      budget_(parameters.integer("budget", kBudget, 0, 100'000'000)),
      seed_(seed_parameter(parameters)),
      messages_(parameters.truth("messages", true)) {}

PortfolioPolicy ExactPolicy::portfolio(const PolicyOptions& options) const {
  PolicyParameters parameters("portfolio", fmt::format("budget={},seed={},messages={}", budget_,
                                                       seed_.value_or(options.seed), messages_ ? "on" : "off"));
  return PortfolioPolicy(parameters);
}

std::vector<plan::Rewrite> ExactPolicy::rewrites(const graph::Graph& graph, const PolicyOptions& options) const {
  return portfolio(options).rewrites(graph, options);
}

plan::Order ExactPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  plan::Order start = std::move(portfolio(options).orders({&borrowed, 1}, options).front());
  const WindowSearch::Accepts accepts = [&](const plan::Order& order) {
    return options.memory_limit <= 0 || plan::make_plan(borrowed, order, "tried").scratch_bytes <= options.memory_limit;
  };
  if (graph.tasks().empty() || !accepts(start)) return start;
  const cost::TaskCosts costs = costs_of(graph, options);
  const plan::Selection* chosen = plan::selection_of(start.reasons);
  plan::Selection selection = chosen == nullptr ? plan::Selection{} : *chosen;
  plan::Order first = freed(start, graph, costs, options, accepts);
  // Neither added edges nor a choice of streams were left out.
  const bool all_orders = first.added_edges.empty() && options.compute_streams == 1;
  WindowSearch search(graph, costs, options, std::move(first), accepts);
  Slide slide(search, nodes_);
  bool complete = false;
  for (auto window = static_cast<std::size_t>(window_); slide.left() && !slide.reached() && !complete; window *= 2) {
    complete = slide.over(window);
    if (window >= search.tasks()) break;
  }
  const bool proved = slide.reached() || (complete && all_orders);
  plan::Order order = search.order({.table = &kReasons, .numbers = {static_cast<std::uint64_t>(window_)}});
  selection.order = fmt::format("exact search from {}{}", selection.order, proved ? ", proved optimal" : "");
  selection.makespan_ns = search.makespan();
  ++selection.orders;
  for (plan::Reason& reason : order.reasons) reason.selection = selection;
  return order;
}

}  // namespace weft::policy
