// The step that a command line names: of a configuration or of a graph file, with --scale.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cost/scaled_costs.h"
#include "study/policy_step.h"
#include "tools/command_line/command.h"
#include "tools/input/open_input.h"
#include "train/config/config.h"

namespace weft::tools {

/// As options set it; ConfigOptions::on_step() fills in the first two.
struct StepSource {
  train::RunConfig config = {};           // not yet resolved
  std::optional<OpenSettings> open = {};  // in place of a configuration
  std::vector<cost::NamedFactor> scales = {};

  /// Lets policies and their libraries be loaded that the command line names.
  void trust(const std::vector<std::string>& policies);
};

/// --scale: what if some tasks took another time? Adds to `scales`, each time it is given.
CommandOption scale_option(std::vector<cost::NamedFactor>& scales);

/// Reads a step once, for several policies. The source must outlive it.
class StepReader {
 public:
  /// `world_size`: ranks that mpirun started, else 0.
  explicit StepReader(const StepSource& source, std::int64_t world_size = 0);

  /// The problem of a policy, by default of the configuration's, with the policy in its report; nothing is planned.
  /// Throws UserError on a configuration that can't be under this policy, and on a pattern of --scale that matches no
  /// task.
  study::PolicyStep step(const std::string& policy = "");
  study::PolicyStep step_of(train::ResolvedRun run);
  /// One for each policy. A policy that can't have one, such as a pipeline's that wants more stages than there are
  /// layers, is refused alone unless it is the only one. Throws UserError on policies that nobody knows.
  std::vector<study::PolicyStep> steps(const std::vector<std::string>& policies);

  /// Costs of the steps to come, in place of the configuration's.
  void take_profile(std::shared_ptr<const cost::Profile> profile);

  /// The graph file; nullptr: the step is a configuration's.
  const OpenInput* open() const { return open_ ? &*open_ : nullptr; }

 private:
  const StepSource& source_;
  const std::int64_t world_size_;
  std::shared_ptr<const cost::Profile> profile_;
  std::optional<OpenInput> open_;
  std::vector<std::pair<std::string, simulate::Problem>> problems_;  // by what their graphs depend on
};

/// Equal for runs of equal graphs, given that they differ in the policy and in study::other_settings() alone.
std::string graphs_of(const train::ResolvedRun& run);

/// Plans and simulates; a refusal is in the report.
void plan_step(study::PolicyStep& step);

}  // namespace weft::tools
