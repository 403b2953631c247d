#include "runtime/policy/scheduling/within_limit.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "runtime/plan/plan.h"
#include "runtime/policy/scheduling/arrangement.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

constexpr std::int64_t kGathersAhead[] = {1, 2, 3, 4, 8, 16};

}  // namespace

FitsMemory fits_memory(const graph::Graph& graph, const PolicyOptions& options) {
  if (options.memory_limit <= 0) return {};
  return [borrowed = std::shared_ptr<const graph::Graph>(std::shared_ptr<void>(), &graph),
          limit = options.memory_limit](const ListScheduler& scheduler) {
    const plan::Order order = scheduler.order({.kind = plan::ReasonKind::best_ready});
    return plan::make_plan(borrowed, order, "tried").scratch_bytes <= limit;
  };
}

LimitedOrder order_within_limit(const graph::Graph& graph, const PolicyOptions& options,
                                const std::function<plan::Order(const PolicyOptions&)>& order_under,
                                std::int64_t first) {
  constexpr int kTries = 4;
  if (options.memory_limit <= 0) return {.order = order_under(options), .gathers_ahead = options.gathers_ahead};
  const std::shared_ptr<const graph::Graph> borrowed(std::shared_ptr<void>(), &graph);
  PolicyOptions tried = options;
  if (first > 0) tried.memory_limit = std::min(first, options.memory_limit);
  LimitedOrder best;
  for (int i = 0; i < kTries; ++i) {
    LimitedOrder next{.order = order_under(tried), .limit = tried.memory_limit, .gathers_ahead = options.gathers_ahead};
    next.scratch_bytes = plan::make_plan(borrowed, next.order, "list").scratch_bytes;
    const double excess = static_cast<double>(next.scratch_bytes) / static_cast<double>(options.memory_limit);
    if (i == 0 || next.scratch_bytes < best.scratch_bytes) best = std::move(next);
    if (best.scratch_bytes <= options.memory_limit) break;
    tried.memory_limit =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(0.99 * static_cast<double>(tried.memory_limit) / excess));
  }
  return best;
}

LimitedOrder shortest_within_limit(const graph::Graph& graph, const cost::TaskCosts& costs,
                                   const PolicyOptions& options,
                                   const std::function<plan::Order(const PolicyOptions&)>& order_under) {
  const auto weigh = [&](std::int64_t ahead) {
    PolicyOptions tried = options;
    tried.gathers_ahead = ahead;
    LimitedOrder found = order_within_limit(graph, tried, order_under);
    found.makespan = timetable_of(graph, found.order, costs, options).makespan;
    return found;
  };
  LimitedOrder best = weigh(options.gathers_ahead);
  if (std::ranges::none_of(graph.tasks(), is_gather)) return best;
  const auto key = [&](const LimitedOrder& order) {
    const bool fits = order.scratch_bytes <= options.memory_limit;
    return std::tuple(!fits, fits ? order.makespan : static_cast<double>(order.scratch_bytes));
  };
  for (const std::int64_t ahead : kGathersAhead) {
    if (LimitedOrder next = weigh(ahead); key(next) < key(best)) best = std::move(next);
  }
  return best;
}

}  // namespace weft::policy
