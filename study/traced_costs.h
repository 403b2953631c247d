// A run's own costs: what its tasks took in the steps that were traced, to simulate its plan with.
#pragma once

#include "runtime/plan/recording.h"
#include "runtime/simulate/report.h"

namespace weft::study {

/// `problem` with tasks that cost what they took in the recording, in the mean of its ranks and steps by kind and size.
/// `plan` is the plan that ran: it has the recording's tasks, in their order. Times of tasks that ran beside each other
/// hold already what they take from each other, so the machine no longer slows them down.
simulate::Problem with_traced_costs(simulate::Problem problem, const plan::Plan& plan,
                                    const plan::Recording& recording);

}  // namespace weft::study
