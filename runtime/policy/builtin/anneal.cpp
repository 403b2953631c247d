#include "runtime/policy/builtin/anneal.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/policy/builtin/random.h"
#include "runtime/policy/builtin/sweep.h"
#include "runtime/policy/scheduling/random_numbers.h"
#include "runtime/policy/scheduling/within_limit.h"

namespace weft::policy {
namespace {

constexpr int kSweepsOfStart = 8;

}  // namespace

Annealed anneal(ListScheduler& scheduler, std::vector<double> priority, std::int64_t moves, std::uint64_t seed) {
  RandomNumbers numbers(seed);
  Annealed result{priority, scheduler.run(priority), 0};
  result.best = result.first;
  double current = result.first, temperature = 0.002 * result.best;
  struct Change {
    std::size_t task;
    double before;
  };
  std::vector<Change> changes;
  const auto tasks = scheduler.graph().tasks();
  changes.reserve(tasks.size() + 4);
  const auto change = [&](std::size_t task, double value) {
    changes.push_back({task, priority[task]});
    priority[task] = value;
  };
  const double reach = result.first;  // the scale of priorities, which are times to the end of the step
  std::vector<ListScheduler::Blocked> blocked = scheduler.blocked();
  for (std::int64_t move = 0; move < moves && !priority.empty(); ++move) {
    changes.clear();
    // Moves of all sizes: from a whole step down to 1/1024 of it.
    const auto scale = [&] { return reach * std::exp2(-static_cast<double>(numbers.below(11))); };
    if (numbers.below(4) == 0) {
      const graph::Task& one = tasks[numbers.below(tasks.size())];
      const bool all_layers = numbers.below(2) == 0;
      const double shift = (2 * numbers.unit() - 1) * scale();
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        const bool same_pass = tasks[i].micro_batch == one.micro_batch && tasks[i].phase == one.phase;
        if (same_pass && (all_layers || tasks[i].layer == one.layer)) change(i, priority[i] + shift);
      }
    } else {
      for (std::size_t count = 1 + numbers.below(4); count > 0; --count) {
        if (!blocked.empty() && numbers.below(2) == 0) {
          const auto [task, by] = blocked[numbers.below(blocked.size())];
          change(task, std::max(priority[task], priority[by]) + numbers.unit() * scale() / 16);
        } else {
          const std::size_t task = numbers.below(tasks.size());
          change(task, priority[task] + (2 * numbers.unit() - 1) * scale());
        }
      }
    }
    const double makespan = scheduler.run(priority);
    const double luck = numbers.unit();
    if (makespan <= current || luck < std::exp((current - makespan) / temperature)) {
      current = makespan;
      blocked = scheduler.blocked();
      if (makespan < result.best) {
        result.best = makespan;
        result.priority = priority;
      }
    } else {
      for (std::size_t i = changes.size(); i-- > 0;) priority[changes[i].task] = changes[i].before;
    }
    temperature *= 0.9995;
  }
  return result;
}

AnnealPolicy::AnnealPolicy(PolicyParameters& parameters)
    : iterations_(parameters.integer("iterations", 500, 0, 100'000'000)), seed_(seed_parameter(parameters)) {}

plan::Order AnnealPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const cost::TaskCosts costs = costs_of(graph, options);
  const auto start = [&](const PolicyOptions& limited) {
    ListScheduler scheduler(graph, costs, limited);
    scheduler.run(upward_rank(graph, costs.ns));
    return scheduler.order({.kind = plan::ReasonKind::best_ready});
  };
  const std::int64_t first = options.memory_limit > 0 ? order_within_limit(graph, options, start).limit : 0;
  const auto order_under = [&](const PolicyOptions& limited) {
    ListScheduler scheduler(graph, costs, limited), backward(graph, costs, limited, ListScheduler::Direction::backward);
    const Swept swept = sweep(scheduler, backward, upward_rank(graph, costs.ns), kSweepsOfStart);
    const Annealed found = anneal(scheduler, swept.priority, iterations_, seed_.value_or(options.seed));
    scheduler.run(found.priority);
    return scheduler.order({.kind = plan::ReasonKind::best_ready,
                            .priority = plan::Priority::annealed_critical_path,
                            .numbers = {static_cast<std::uint64_t>(iterations_)},
                            .ns = {found.first, found.best}});
  };
  return order_within_limit(graph, options, order_under, first).order;
}

}  // namespace weft::policy
