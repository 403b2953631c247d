// The search for remedies of exposed collectives: candidates are ranked by a timetable, and the best are simulated.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/simulate/candidate_moves.h"
#include "runtime/simulate/explain.h"

namespace weft::simulate {

/// Finds remedies for one class of a problem and its report, which must outlive this object. The other classes keep
/// their plans.
class Remedies {
 public:
  Remedies(const Problem& problem, const Report& report, std::size_t of_class);

  /// Fills in the remedies of a group: of each kind the best that keeps the memory limit, applied to all members at
  /// once, by falling gain; at last what they would gain if they took no time. `collectives`: those that the group's
  /// members are indices of.
  void find(const SimulatedStep& step, const std::vector<ExposedCollective>& collectives, ExposureGroup& group);
  /// The exact rewrites of the whole graph under the same policy, by falling gain.
  std::vector<Remedy> rewrites() const;

 private:
  struct Ranked {
    CandidateMoves candidate;
    plan::Order order;
    double gain_ns = 0;  // by the timetable
  };

  std::vector<Ranked> ranked(const SimulatedStep& step, std::vector<CandidateMoves> candidates) const;
  /// Plans and simulates the best candidates of one kind, until one keeps the memory limit.
  Remedy best_of(const std::vector<Ranked*>& of_kind, const SimulatedStep& step) const;
  /// With the gains that the timetable shows.
  Remedy unplanned(const Ranked& ranked, const SimulatedStep& step) const;
  void plan_and_simulate(const plan::Order& order, Remedy& remedy) const;
  /// With this plan of the class.
  double simulated_ns(const plan::Plan& plan, std::span<const cost::TaskCosts> costs) const;
  double timetable_ns(const plan::Order& order) const;
  std::optional<Remedy> without_limit();
  Remedy without_cost(const std::vector<ExposedCollective>& members) const;

  const Problem& problem_;
  const Report& report_;
  const std::size_t of_class_;
  const ClassReport& own_;  // of the class
  SimulationOptions options_;
  std::vector<plan::Order> others_;  // by class, as the report has them
  plan::Order order_;
  double order_ns_ = 0;              // by the timetable
  std::optional<Report> unlimited_;  // made when a group asks for it
};

/// Whether the plan takes no more memory than the problem allows.
bool keeps_memory(const Problem& problem, const plan::Plan& plan);

}  // namespace weft::simulate
