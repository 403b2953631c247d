// How a plan fares when tasks don't take what it was planned with.
#pragma once

#include "runtime/simulate/plan_report.h"

namespace weft::simulate {

struct Disturbance {
  double noise = 0.2;      // relative standard deviation of every task's time
  double slow_rank = 1.2;  // how many times as long rank 0 computes
  int draws = 21;          // of the noise
};

/// Simulated steps in nanoseconds.
struct Robustness {
  double median_ns = 0, p95_ns = 0;  // over the draws of the noise
  double slow_rank_ns = 0;           // without noise
};

/// Of a report's plan. The draws are those of the problem's seed and the next ones: plans of one graph are disturbed
/// alike. Every rank is simulated, so it takes `draws` times as long as there are ranks. Throws UserError on a
/// disturbance out of range.
Robustness robustness_of(const PlanReport& report, const PlanningProblem& problem, const Disturbance& disturbance);

}  // namespace weft::simulate
