// Bounds that windows prove, for the reports of a step: often much closer to the best order than the other bounds.
#pragma once

#include <span>

#include "runtime/simulate/report.h"

namespace weft::simulate {

/// Sets Bounds::windows of the reports' graphs and of the problem's own graphs: what certify_by_windows() proves, once
/// for equal graphs. Steps of more than 20,000 tasks are left out, since their proofs take more than a few seconds.
void prove_windows(const Problem& problem, std::span<Report> reports, ProblemBounds* own = nullptr);

}  // namespace weft::simulate
