// Remedies of exposed collectives. The search ranks candidates by a timetable and simulates the best ones; remedies
// that a person chooses are applied together to the plan that they were found for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan_file.h"
#include "runtime/simulate/explain.h"

namespace weft::simulate {

/// Fills in the remedies of the most exposed groups: of each kind the best that keeps the memory limit, applied to all
/// members at once, by falling gain; at last what they would gain if they took no time. Then the exact rewrites of the
/// whole graph under the same policy, by falling gain. `step` is of one class; the other classes keep their plans.
void find_remedies(const Problem& problem, const Report& report, const SimulatedStep& step,
                   const ExplainOptions& options, Explanation& explanation);

struct AppliedRemedies {
  std::vector<int> numbers;
  plan::PlanFile file;
  double step_ns = 0;             // simulated, of the plan that the file's text describes
  double gain_ns = 0;             // against the report's step
  double promised_ns = 0;         // sum of the remedies' own gains
  std::int64_t memory_bytes = 0;  // state and scratch of the class
};

/// Of the explanation of one class; the other classes keep their orders. Applies the rewrites first, since the policy
/// orders the graph that they make, then the moves by their numbers. Throws UserError if a number is unknown or
/// repeated, if the remedies contradict each other, if the plan isn't safe or takes too much memory, and if the plan
/// read back from the file's text takes no less time than the report's.
AppliedRemedies apply_remedies(const Problem& problem, const Report& report, const Explanation& explanation,
                               std::span<const int> numbers, std::size_t of_class = 0);

}  // namespace weft::simulate
