// Remedies for exposed collectives: changes of the order or the graph, each simulated.
#pragma once

#include <string>
#include <vector>

#include "runtime/simulate/exposed_collective.h"

namespace weft::simulate {

/// Finds remedies for one problem and its report, which must outlive this object.
class Remedies {
 public:
  Remedies(const PlanningProblem& problem, const PlanReport& report);

  /// Fills in the collective's remedies.
  void find(const SimulatedStep& step, ExposedCollective& exposed) const;
  /// The exact rewrites of the whole graph under the same policy, by falling gain.
  std::vector<Remedy> rewrites() const;

 private:
  using Tried = std::vector<std::vector<plan::Placement>>;

  void issue_at_once(const SimulatedStep& step, ExposedCollective& exposed, Tried& tried) const;
  void pass_queue(const SimulatedStep& step, ExposedCollective& exposed, Tried& tried) const;
  /// Moves computations that don't need the collective before the first that does, as many as are needed to hide it.
  void compute_first(const SimulatedStep& step, ExposedCollective& exposed, Tried& tried) const;
  void lift_the_limit(ExposedCollective& exposed) const;
  void cost_nothing(ExposedCollective& exposed) const;
  void try_order(const plan::Order& order, std::string what, ExposedCollective& exposed, Tried& tried) const;

  const PlanningProblem& problem_;
  const PlanReport& report_;
  SimulationOptions options_;
};

}  // namespace weft::simulate
