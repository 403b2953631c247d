// The options of commands that plan for a machine: where the costs of tasks come from.
#pragma once

#include <memory>
#include <string>

#include "runtime/plan_report.h"
#include "runtime/profile.h"
#include "train/config.h"

namespace CLI {
class App;
}  // namespace CLI

namespace weft {

/// --machine, --profile, --streams and --memory-limit. A profile counts where it knows a task; the machine for the
/// rest, and for what tasks share.
class CostOptions {
 public:
  explicit CostOptions(CLI::App& command);

  bool has_profile() const;

  /// The training step of a resolved configuration. Throws UserError.
  PlanningProblem problem(const RunConfig& config) const;
  /// The same graph under another profile: the one that has just been measured.
  PlanningProblem problem(const RunConfig& config, const Profile& profile) const;

 private:
  struct Given;
  PlanningProblem make(const RunConfig& config, const Profile* profile) const;
  std::shared_ptr<Given> given_;
};

}  // namespace weft
