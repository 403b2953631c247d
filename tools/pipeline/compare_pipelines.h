// `weft compare` of a grid with pipeline stages: many schedules of one step, simulated and, when asked to, measured.
#pragma once

#include <string>
#include <vector>

#include "runtime/cost/scaled_costs.h"
#include "tools/pipeline/pipeline_step.h"
#include "train/config/config.h"

namespace weft::tools {

struct PipelineComparison {
  train::RunConfig config;  // not yet resolved
  std::vector<std::string> policies;
  std::vector<cost::CostScale> scales;
  std::vector<std::string> outputs;
  bool measure = false, machine_costs = false, json = false, markdown = false, quiet = false;
  int measured_rounds = 20, profile_steps = 10;
};

/// Prints and writes the comparison; returns the exit code. With `measure`, all schedules are run in turn, with steps
/// between them by whose costs they are judged.
int compare_pipelines(const PipelineComparison& comparison);

}  // namespace weft::tools
