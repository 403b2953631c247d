#include "runtime/policies/anneal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/policies/random.h"
#include "runtime/policies/random_numbers.h"

namespace weft {

Annealed anneal(ListScheduler& scheduler, std::vector<double> priority, std::int64_t moves, std::uint64_t seed) {
  RandomNumbers numbers(seed);
  Annealed result{priority, scheduler.run(priority), 0};
  result.best = result.first;
  double current = result.first, temperature = 0.002 * result.best;
  struct Change {
    std::size_t task;
    double before;
  };
  std::array<Change, 4> changes{};
  const double reach = result.first;  // priorities are times to the end of the step, or like them
  for (std::int64_t move = 0; move < moves && !priority.empty(); ++move) {
    const std::size_t count = 1 + numbers.below(changes.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t task = numbers.below(priority.size());
      changes[i] = {task, priority[task]};
      // Near and far moves alike: from a whole step down to 1/1024 of it.
      const double scale = reach * std::exp2(-static_cast<double>(numbers.below(11)));
      priority[task] += (2 * numbers.unit() - 1) * scale;
    }
    const double makespan = scheduler.run(priority);
    const double luck = numbers.unit();
    if (makespan <= current || luck < std::exp((current - makespan) / temperature)) {
      current = makespan;
      if (makespan < result.best) {
        result.best = makespan;
        result.priority = priority;
      }
    } else {
      for (std::size_t i = count; i-- > 0;) priority[changes[i].task] = changes[i].before;
    }
    temperature *= 0.9995;
  }
  return result;
}

AnnealPolicy::AnnealPolicy(PolicyParameters& parameters)
    : iterations_(parameters.integer("iterations", 500, 0, 100'000'000)), seed_(seed_parameter(parameters)) {}

Order AnnealPolicy::order(const Graph& graph, const PolicyOptions& options) const {
  const TaskCosts costs = costs_of(graph, options);
  ListScheduler scheduler(graph, costs, options);
  const Annealed found = anneal(scheduler, upward_rank(graph, costs.ns), iterations_, seed_.value_or(options.seed));
  scheduler.run(found.priority);
  return scheduler.order(
      fmt::format("the largest priority, as found in {} moves from critical-path ({:.3f} → {:.3f} ms)", iterations_,
                  found.first / 1e6, found.best / 1e6));
}

}  // namespace weft
