// A run's own costs: what its tasks took in the steps that were traced, to simulate its plan with.
#pragma once

#include <span>

#include "runtime/plan/recording.h"
#include "runtime/simulate/report.h"

namespace weft::study {

/// `problem` with tasks that cost what they took in the recordings, in the mean of their ranks and steps by kind and
/// size. `plans` are those that ran, by class: they have their recording's tasks, in their order. A message between
/// stages counts from when both ends were ready. Times of tasks that ran beside each other hold already what they take
/// from each other, so the machine no longer slows them down.
simulate::Problem with_traced_costs(simulate::Problem problem, std::span<const plan::Plan* const> plans,
                                    std::span<const plan::Recording> recordings);

}  // namespace weft::study
