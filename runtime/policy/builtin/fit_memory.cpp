#include "runtime/policy/builtin/fit_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "runtime/policy/builtin/program.h"
#include "runtime/policy/scheduling/limited_lists.h"
#include "runtime/policy/scheduling/memory_forecast.h"

namespace weft::policy {
namespace {

constexpr std::size_t kFewTasks = 7;  // at most 5,040 orders

/// Orders of a step, of which the shortest counts that keeps the memory limits.
class Fitting {
 public:
  Fitting(graph::Classes classes, const PolicyOptions& options)
      : classes_(classes), options_(options), lists_(classes, options) {}

  /// Whether the orders' plans keep the limits. Keeps the orders if they are the best so far (better_than()).
  bool look_at(LimitedOrders orders) {
    const bool fits = orders.fits();
    if (!best_ || orders.better_than(*best_)) best_ = std::move(orders);
    return fits;
  }
  void enter(std::string name, std::vector<plan::Order> orders) {
    LimitedOrders found = planned(classes_, std::move(orders), options_);
    if (found.fits()) {
      found = lists_.weigh(std::move(found.orders));
      ++fitting_;
    }
    const bool better = found.fits() && (!best_->fits() || found.better_than(*best_));
    look_at(std::move(found));
    if (better) name_ = std::move(name);
  }
  bool found() const { return best_ && best_->fits(); }
  /// With the selection as the reason, if an entered order is the best.
  LimitedOrders take() {
    for (std::size_t k = 0; !name_.empty() && k < classes_.size(); ++k) {
      const plan::Selection selection{.order = name_,
                                      .orders = fitting_,
                                      .memory_limit = static_cast<std::uint64_t>(scratch_limit(*classes_[k], options_)),
                                      .keeps_limit = true,
                                      .makespan_ns = best_->makespan};
      for (plan::Reason& reason : best_->orders[k].reasons) reason.selection = selection;
    }
    return *std::move(best_);
  }

  /// Tasks start in the order of `wanted`, as far as the limits allow.
  std::vector<plan::Order> list_schedule_like(std::span<const plan::Order> wanted) const {
    const std::vector<double> priority = lists_.priority_of(wanted);
    return lists_.shortest(by_priority(priority, {.table = &kFittedReasons})).orders;
  }

  /// Enters the first serial order of a graph that fits, of all that there are.
  void try_all_serial_orders(const graph::Graph& graph) {
    std::vector<graph::TaskId> sequence;
    std::vector<bool> placed(graph.tasks().size(), false);
    extend(graph, sequence, placed);
  }

 private:
  bool extend(const graph::Graph& graph, std::vector<graph::TaskId>& sequence, std::vector<bool>& placed) {
    if (sequence.size() == placed.size()) {
      enter("any serial order", {serial_order(graph, sequence)});
      return found();
    }
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const graph::TaskId task(i);
      const bool ready = std::ranges::all_of(graph.in_edges(task), [&](const graph::Edge& edge) {
        return edge.distance != 0 || placed[edge.from.index()];
      });
      if (placed[i] || !ready) continue;
      placed[i] = true;
      sequence.push_back(task);
      if (extend(graph, sequence, placed)) return true;
      sequence.pop_back();
      placed[i] = false;
    }
    return false;
  }

  graph::Classes classes_;
  const PolicyOptions& options_;
  LimitedLists lists_;
  std::optional<LimitedOrders> best_;
  std::string name_;  // of the best, if it was entered
  std::uint64_t fitting_ = 0;
};

/// Starts, of the ready tasks, the one that leaves the fewest bytes alive; ties in program order.
std::vector<graph::TaskId> least_memory_sequence(const graph::Graph& graph) {
  MemoryForecast forecast(graph, 1);
  const auto change = [&](std::size_t task) { return std::pair(forecast.adds(task) - forecast.frees(task), task); };
  std::vector<std::size_t> ready, missing(graph.tasks().size(), 0);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    for (const graph::Edge& edge : graph.in_edges(graph::TaskId(i))) missing[i] += edge.distance == 0 ? 1 : 0;
    if (missing[i] == 0) ready.push_back(i);
  }
  std::vector<graph::TaskId> sequence;
  while (!ready.empty()) {
    const auto next = std::ranges::min_element(ready, {}, change);
    const std::size_t task = *next;
    ready.erase(next);
    sequence.emplace_back(task);
    forecast.start(task);
    forecast.finish(task);
    for (const graph::Edge& edge : graph.out_edges(graph::TaskId(task))) {
      if (edge.distance == 0 && --missing[edge.to.index()] == 0) ready.push_back(edge.to.index());
    }
  }
  return sequence;
}

}  // namespace

LimitedOrders fitted_orders(const Policy& policy, graph::Classes classes, const PolicyOptions& options,
                            std::span<const plan::Order> wanted) {
  Fitting fitting(classes, options);
  const bool fits = fitting.look_at(planned(classes, policy.orders(classes, options), options));
  if (fits || !policy.may_be_reordered()) return fitting.take();
  std::vector<std::vector<graph::TaskId>> least_memory;
  for (const auto& graph : classes) least_memory.push_back(least_memory_sequence(*graph));
  fitting.enter(fmt::format("list schedule in {}'s order", policy.name()), fitting.list_schedule_like(wanted));
  fitting.enter("serial", SerialPolicy().orders(classes, options));
  fitting.enter("serial by least memory", serial_orders(classes, least_memory, options));
  if (!fitting.found() && classes.size() == 1 && classes.front()->tasks().size() <= kFewTasks)
    fitting.try_all_serial_orders(*classes.front());
  return fitting.take();
}

void refuse_memory(const Policy& policy, graph::Classes classes, const PolicyOptions& options,
                   const LimitedOrders& least, std::string_view rewritten) {
  const auto share = [&](std::size_t k) {
    return static_cast<double>(least.scratch_bytes[k]) / static_cast<double>(scratch_limit(*classes[k], options));
  };
  const std::size_t fullest = *std::ranges::max_element(std::views::iota(std::size_t{0}, classes.size()), {}, share);
  const auto bytes = [](std::int64_t count) { return human_bytes(static_cast<std::uint64_t>(count)); };
  const std::int64_t state = state_bytes(*classes[fullest]), scratch = least.scratch_bytes[fullest];
  throw UserError(
      fmt::format("{} takes at least {} of memory a rank ({} of state and {} of scratch) in every order that was "
                  "tried for policy {}{}",
                  classes.size() == 1 ? "the step" : fmt::format("pipeline stage {}", fullest), bytes(state + scratch),
                  bytes(state), bytes(scratch), policy.name(), rewritten),
      options.memory > 0 ? fmt::format("at most {}", bytes(options.memory))
                         : fmt::format("at most {} of scratch", bytes(scratch_limit(*classes[fullest], options))),
      rewritten.empty() ? "give it that much (--memory), use more ranks, or recompute activations (--recompute block)"
                        : "give it that much (--memory), use more ranks, or a smaller --micro-batch");
}

std::vector<plan::Order> orders_within_memory(const Policy& policy, graph::Classes classes,
                                              const PolicyOptions& options) {
  LimitedOrders wanted = planned(classes, policy.orders(classes, without_limits(options)), options);
  if (wanted.fits()) return std::move(wanted.orders);
  LimitedOrders fitted = fitted_orders(policy, classes, options, wanted.orders);
  if (fitted.fits()) return std::move(fitted.orders);
  refuse_memory(policy, classes, options, fitted.better_than(wanted) ? fitted : wanted);
}

}  // namespace weft::policy
