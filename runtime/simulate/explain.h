// Explanations of exposed collectives: causes, read off a simulated step, the groups that share them, remedies, each
// simulated, and the pieces of the critical path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/simulate/exposed_collective.h"
#include "runtime/simulate/remedy.h"
#include "runtime/simulate/simulated_step.h"

namespace weft::simulate {

/// Exposed collectives with the same cause that only differ in the numbers of layer and micro-batch.
struct ExposureGroup {
  std::string name;                   // "mb*.L*.mlp.up.bwd.all_reduce_dx"; the own name of a single collective
  std::vector<std::size_t> members;   // of Explanation::collectives, by falling exposed time
  double exposed_ns = 0;              // sum
  std::vector<Remedy> remedies = {};  // by falling gain; of all members at once
};

/// The name that collectives share which only differ in layer and micro-batch: "mb0.L3.mlp.up" becomes "mb*.L*.mlp.up".
std::string group_name(const std::string& name);

/// A piece of the critical path: consecutive tasks of one kind.
struct PathPiece {
  std::string kind;  // "gemm", "all_reduce on y"
  graph::Phase phase = graph::Phase::forward;
  std::string first, last;
  std::int64_t tasks = 0;
  double ns = 0;
};

struct Explanation {
  std::size_t of_plan = 0;                     // number of collectives of the plan
  std::vector<ExposedCollective> collectives;  // by falling exposed time
  std::vector<ExposureGroup> groups;           // by falling exposed time; each collective is in one group
  std::vector<PathPiece> path;                 // in order of time: from the step's last task back, each task's
                                               // predecessor is the one it waited for longest
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

/// Explains one class. `report` must have plans of this problem. Remedies that gain and that a plan can have are
/// numbered: by group, then those between passes, then the rewrites. Throws UserError if `only` names no collective of
/// the plan.
Explanation explain(const Problem& problem, const Report& report, const ExplainOptions& options,
                    std::size_t of_class = 0);

}  // namespace weft::simulate
