// Steps of pipelines for the commands that simulate: one policy's step, its text, its JSON, its pictures.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/styled_text.h"
#include "base/text/json_object.h"
#include "inspect/drawing/picture.h"
#include "runtime/cost/scaled_costs.h"
#include "runtime/simulate/report.h"
#include "runtime/simulate/robustness.h"
#include "study/comparison.h"
#include "train/config/resolved_run.h"

namespace weft::tools {

/// Measured steps of a pipeline.
struct MeasuredPipeline {
  study::MeasuredSteps steps;
  std::vector<simulate::ClassTimes> times;  // by stage, of the rank that stands for it: means over the steps

  double bubble_share() const;  // of these ranks' time, without a computation
};

/// One policy on the pipeline of a configuration. Policies may want another number of stages on a rank, and so other
/// graphs.
struct PipelineStep {
  train::ResolvedRun run = {};
  simulate::Problem problem = {};
  simulate::Report report = {};
  std::optional<MeasuredPipeline> measured = std::nullopt;
  std::optional<simulate::Robustness> disturbed = std::nullopt;

  double tokens_per_second() const;
};

/// What a command asks for besides the configuration.
struct PipelineQuestion {
  std::vector<cost::CostScale> scales = {};
  simulate::SimulationOptions simulation = {};
};

/// Whether the configuration, not yet resolved, has pipeline stages.
bool is_pipeline(const train::RunConfig& config);

/// Of the configuration with a policy: its own if the name is empty. A refusal is in the report.
PipelineStep simulate_pipeline(train::RunConfig config, const std::string& policy, const PipelineQuestion& question);

/// The step, its stages and its chart; without a width, 100 columns.
std::string pipeline_text(const PipelineStep& step, std::optional<std::size_t> width);
JsonObject pipeline_json(const PipelineStep& step);

/// One row a policy.
StyledText pipeline_comparison(const std::vector<PipelineStep>& steps, std::optional<std::size_t> width);
std::string pipeline_comparison_markdown(const std::vector<PipelineStep>& steps);

/// For what stages wait while they don't compute, and the longest gaps.
std::string bubble_text(const PipelineStep& step, std::size_t most, std::optional<std::size_t> width);
JsonObject bubble_json(const PipelineStep& step, std::size_t most);

/// Charts of the steps that were planned, below each other on one time axis.
inspect::Picture picture_of(const std::vector<PipelineStep>& steps);

}  // namespace weft::tools
