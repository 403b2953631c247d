// --scale: what if some tasks took another time?
#pragma once

#include <vector>

#include "runtime/cost/scaled_costs.h"
#include "runtime/simulate/report.h"
#include "tools/command_line/command.h"

namespace weft::tools {

/// Adds to `scales`, each time it is given.
CommandOption scale_option(std::vector<cost::CostScale>& scales);

/// Scales the costs of a problem with a cost model. Throws UserError on a pattern that matches no task of its graph.
void scale_costs(simulate::Problem& problem, const std::vector<cost::CostScale>& scales);

}  // namespace weft::tools
