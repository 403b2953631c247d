// Bounds that windows prove, for the reports of a step: often much closer to the best order than the other bounds.
#pragma once

#include <span>

#include "runtime/simulate/joint_report.h"
#include "runtime/simulate/plan_report.h"

namespace weft::simulate {

/// Sets Bounds::windows of the reports' graphs and of the problem's own graph: what certify_by_windows() proves, once
/// for each graph. Graphs of more than 20,000 tasks are left out, since their proofs take more than a few seconds.
void prove_windows(const PlanningProblem& problem, std::span<PlanReport> reports, ProblemBounds* own = nullptr);
void prove_windows(const JointProblem& problem, JointReport& report);

}  // namespace weft::simulate
