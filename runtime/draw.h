// Drawings of a plan: its graph with streams as borders.
#pragma once

#include <string>

#include "graph/dump_dot.h"
#include "runtime/plan.h"

namespace weft {

/// The plan's graph as DOT, each task bordered in its stream's colour, the edges that policy and memory planner added
/// among the others. `file_name` stands in the first line, the command that renders it. `options` may ask for more.
std::string plan_dot(const Plan& plan, const std::string& file_name, DotOptions options = {});

}  // namespace weft
