// Drawings of a graph that is planned and simulated: streams, times, which computations hide a collective, the critical
// path and where memory peaks.
#pragma once

#include <string>

#include "inspect/drawing/drawing.h"
#include "runtime/plan/plan.h"
#include "runtime/simulate/report.h"

namespace weft::inspect {

/// `options` with each task bordered in its stream's colour, the policy's reasons in the tooltips, the edges that
/// policy and memory planner added among the others, and the task marked at which the plan needs the most memory. The
/// plan must outlive them.
DrawingOptions planned(const plan::Plan& plan, DrawingOptions options = {});

/// planned() with the times of the simulated step. A box says how long its task takes; a collective's box also says on
/// which stream it runs, and which computation runs beside it or that it is exposed. Tooltips have start and slack, the
/// caption has the length of step and critical path. The report must outlive them, and have a plan.
DrawingOptions simulated(const simulate::Report& report, DrawingOptions options = {}, std::size_t of_class = 0);

/// The plan's graph as DOT. `file_name` stands in the first line, the command that renders it.
std::string plan_dot(const plan::Plan& plan, const std::string& file_name, DrawingOptions options = {});

}  // namespace weft::inspect
