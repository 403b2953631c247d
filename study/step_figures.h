// The figures of a simulated step that experiments compare.
#pragma once

#include <cstdint>

#include "runtime/cost/machine.h"
#include "runtime/simulate/report.h"
#include "train/config/config.h"

namespace weft::study {

/// Of a pipeline, all but the step and its bound are of the stage that has most.
struct StepFigures {
  double step_ns = 0, exposed_ns = 0, communication_ns = 0, bound_ns = 0;
  std::int64_t memory_bytes = 0;
};

StepFigures figures_of(const simulate::Report& report);

double tokens_per_second(const train::RunConfig& config, double step_ns);

/// Model FLOPs utilization: the model's arithmetic, recomputation not counted, as a share of the rate that the
/// machine's products reach.
double model_flops_share(const train::RunConfig& config, std::int64_t ranks, const cost::Machine& machine,
                         double step_ns);

/// Throws UserError if several seeds are to be drawn of no noise.
void expect_noise(double noise, std::int64_t seeds);

}  // namespace weft::study
