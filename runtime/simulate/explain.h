// Why a collective is exposed, and what would hide it: read off a simulated step, and simulated again with the change.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/simulate/exposure_groups.h"
#include "runtime/simulate/path_pieces.h"

namespace weft::simulate {

struct Explanation {
  std::vector<ExposedCollective> collectives;  // by falling exposed time
  std::vector<ExposureGroup> groups;           // each collective in one, by falling exposed time
  std::vector<PathPiece> path;                 // in time
  std::vector<Remedy> rewrites;                // of the whole graph under the same policy, by falling gain
};

struct ExplainOptions {
  std::string only;               // the name of one collective; "": all
  double least_ns = 1000;         // exposed for less isn't worth a word
  std::size_t most_remedied = 8;  // collectives whose remedies are simulated: the worst of each group, then others
  bool rewrites = true;           // try the exact rewrites too
};

/// `report` is planned, on this problem. Throws UserError if `only` names no collective of the plan.
Explanation explain(const PlanningProblem& problem, const PlanReport& report, const ExplainOptions& options);

}  // namespace weft::simulate
