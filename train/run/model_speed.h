// The speed of a run's steps in tokens and in the model's own operations, and their share of a machine (MFU).
#pragma once

#include <cstdint>

#include "runtime/cost/machine.h"
#include "train/config/config.h"

namespace weft::train {

double tokens_per_second(const RunConfig& config, double step_ns);

/// Of all ranks together; ops/model_flops.h says which operations count.
double model_flops_per_second(const RunConfig& config, double step_ns);

/// Model FLOPs utilization (MFU): the operations of ops/model_flops.h as a share of the rate that the products of all
/// ranks reach on the machine.
double model_flops_share(const RunConfig& config, std::int64_t ranks, const cost::Machine& machine, double step_ns);

}  // namespace weft::train
