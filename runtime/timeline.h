// One step as a picture: in a terminal, and as SVG.
#pragma once

#include <span>
#include <string>

#include "runtime/plan.h"
#include "runtime/trace.h"

namespace weft {

/// One row a stream, `columns` characters wide in all (at least 40), then a line with the sums. A character stands for
/// what the stream did in that time: # computing, = communicating behind a computation, ! communicating while nothing
/// computes (exposed), + busy for less than half of it, . idle.
///
///   compute0 |######+.########|  88 %
///   data     |....==!!==+.....|  38 %
std::string timeline_text(const Plan& plan, const StepTrace& trace, int columns = 100);

/// One step of several ranks (whose clocks must agree), one row a stream and rank: rectangles in the colours of
/// graph/colors.h with the tasks' names as tooltips, milliseconds below, exposed communication as red bars under its
/// row, and on the right how busy each stream was. A page of its own, without script or links; equal input gives equal
/// bytes.
std::string timeline_svg(const Plan& plan, std::span<const StepTrace> ranks_of_one_step);

}  // namespace weft
