// `weft compare` of a grid with pipeline stages: many schedules of one step, simulated and, when asked to, measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status_line.h"
#include "runtime/cost/scaled_costs.h"
#include "runtime/simulate/robustness.h"
#include "study/comparison.h"
#include "tools/input/open_input.h"
#include "tools/pipeline/pipeline_step.h"
#include "train/config/config.h"

namespace weft::tools {

/// What `weft compare` was asked for.
struct CompareOptions {
  train::RunConfig config;           // not yet resolved
  std::optional<OpenSettings> open;  // in place of a configuration
  std::vector<std::string> policies = {"all"};
  bool measure = false, machine_costs = false, pareto = false, json = false, markdown = false, quiet = false;
  int measured_rounds = 20, profile_steps = 10;
  double noise = 0;
  std::vector<std::string> outputs;
  std::vector<cost::CostScale> scales;
};

/// The names of the policies: "all" becomes every built-in policy for pipelines or for one graph, axonn with its
/// switches one after the other. `recorded`: and what was recorded.
std::vector<std::string> compared_policies(const CompareOptions& options, bool recorded = false);

/// A policy's problem, and its report.
struct ComparedPolicy {
  const simulate::Problem& problem;
  const simulate::Report& report;
};

/// Policies under limits between the least and the greatest memory that any plan took.
std::vector<study::LimitedPlan> front_of(const std::vector<ComparedPolicy>& compared, StatusLine& line);

/// By policy; empty without noise.
std::vector<simulate::Robustness> disturbed(const std::vector<ComparedPolicy>& compared, double noise,
                                            StatusLine& line);

/// Prints and writes the comparison; returns the exit code. With `measure`, all schedules are run in turn, with steps
/// between them by whose costs they are judged.
int compare_pipelines(const CompareOptions& options);

}  // namespace weft::tools
