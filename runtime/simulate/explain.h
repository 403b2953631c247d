// Explanations of exposed collectives: causes, read off a simulated step, and remedies, each simulated.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/simulate/exposure_groups.h"
#include "runtime/simulate/path_pieces.h"

namespace weft::simulate {

struct Explanation {
  std::size_t of_plan = 0;                     // number of collectives of the plan
  std::vector<ExposedCollective> collectives;  // by falling exposed time
  std::vector<ExposureGroup> groups;           // by falling exposed time; each collective is in one group
  std::vector<PathPiece> path;                 // in order of time
  std::vector<Remedy> between_passes;  // computations moved from one pass to another, which gain; by falling gain
  std::vector<Remedy> rewrites;        // rewrites of the whole graph under the same policy, by falling gain

  /// Sum over the explained collectives.
  double exposed_ns() const;
  /// The remedy of a number; nullptr if there is none.
  const Remedy* remedy(int number) const;
  /// Numbers of remedies go from 1 to this.
  int remedies() const;
};

struct ExplainOptions {
  std::string only;               // the name of one collective, or the name that a group has; "": all
  double least_ns = 1000;         // collectives exposed for less time are left out
  std::size_t most_remedied = 8;  // groups whose remedies are simulated, the most exposed first
  bool rewrites = true;           // try the exact rewrites too
};

/// Of one class. `report` must have plans of this problem. Remedies that gain and that a plan can have are numbered: by
/// group, then those between passes, then the rewrites. Throws UserError if `only` names no collective of the plan.
Explanation explain(const Problem& problem, const Report& report, const ExplainOptions& options,
                    std::size_t of_class = 0);

}  // namespace weft::simulate
