#include "runtime/simulate/robustness.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/median.h"

namespace weft::simulate {

Robustness robustness_of(const Report& report, const Problem& problem, const Disturbance& disturbance) {
  if (disturbance.draws < 1) {
    throw UserError(std::to_string(disturbance.draws) + " draws of the noise", "at least one", "");
  }
  SimulationOptions options = simulation_options(problem);
  options.traced_ranks = 1;
  const auto step_ns = [&] { return simulate(report.plans(), report.costs, problem.machine, options).step_ns; };
  Robustness result;
  options.slow_rank = disturbance.slow_rank;
  result.slow_rank_ns = step_ns();
  options.slow_rank = problem.simulation.slow_rank;
  options.noise = disturbance.noise;
  std::vector<double> steps;
  for (int draw = 0; draw < disturbance.draws; ++draw) {
    steps.push_back(step_ns());
    ++options.seed;
  }
  result.median_ns = median(steps);
  std::ranges::sort(steps);
  const auto at = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(steps.size()))) - 1;
  result.p95_ns = steps[at];
  return result;
}

}  // namespace weft::simulate
