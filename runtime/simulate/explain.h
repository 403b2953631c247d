// Explanations of exposed collectives: causes, read off a simulated step, and remedies, each simulated.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/simulate/exposure_groups.h"
#include "runtime/simulate/path_pieces.h"

namespace weft::simulate {

struct Explanation {
  std::vector<ExposedCollective> collectives;  // by falling exposed time
  std::vector<ExposureGroup> groups;           // by falling exposed time; each collective is in one group
  std::vector<PathPiece> path;                 // in order of time
  std::vector<Remedy> rewrites;                // rewrites of the whole graph under the same policy, by falling gain
};

struct ExplainOptions {
  std::string only;               // the name of one collective; "": all
  double least_ns = 1000;         // collectives exposed for less time are left out
  std::size_t most_remedied = 8;  // collectives whose remedies are simulated: the worst of each group, then others
  bool rewrites = true;           // try the exact rewrites too
};

/// `report` must have a plan of this problem. Throws UserError if `only` names no collective of the plan.
Explanation explain(const PlanningProblem& problem, const PlanReport& report, const ExplainOptions& options);

}  // namespace weft::simulate
