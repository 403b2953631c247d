// Cost models: analytic, from the description of a machine, and measured, from a profile.
#pragma once

#include <memory>

#include "graph/grid.h"
#include "runtime/costs.h"
#include "runtime/machine.h"

namespace weft {

/// Computations by flops or bytes, whichever takes longer, plus the start of a task; collectives by latency and
/// bandwidth of the link that their group uses (α–β; ring and direct algorithms move equal bytes).
std::unique_ptr<const CostModel> analytic_costs(const Machine& machine, const Grid& grid);

/// Of the machine that Machine's defaults describe: enough to plan by when nobody said what to plan for.
const CostModel& default_cost_model();

}  // namespace weft
