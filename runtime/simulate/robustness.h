// The robustness of a plan: its step times when tasks take other times than planned.
#pragma once

#include "runtime/simulate/report.h"

namespace weft::simulate {

struct Disturbance {
  double noise = 0.2;      // relative standard deviation of every task's time
  double slow_rank = 1.2;  // factor on the computations of rank 0
  int draws = 21;          // number of draws of the noise
};

/// Simulated steps in nanoseconds.
struct Robustness {
  double median_ns = 0, p95_ns = 0;  // over the draws of the noise
  double slow_rank_ns = 0;           // without noise
};

/// The robustness of a report's plans. The draws use the problem's seed and the following seeds, so plans of one graph
/// get equal noise. Simulates every rank `draws` times. Throws UserError on a disturbance out of range.
Robustness robustness_of(const Report& report, const Problem& problem, const Disturbance& disturbance);

}  // namespace weft::simulate
