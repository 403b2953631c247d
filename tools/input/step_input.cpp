#include "tools/input/step_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "runtime/policy/builtin/recorded.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::tools {
namespace {

void scale_costs(simulate::Problem& problem, const std::vector<cost::NamedFactor>& scales) {
  if (scales.empty()) return;
  problem.options.cost_model = cost::scaled_costs(problem.options.cost_model, scales);
  for (const auto& graph : problem.classes) (void)problem.options.cost_model->costs(*graph);
}

bool keeps_what_is_known(const OpenSettings& settings) {
  return graph::find_kept_order(settings.flags.kept).value_or(graph::KeptOrder::known) == graph::KeptOrder::known;
}

}  // namespace

void StepSource::trust(const std::vector<std::string>& policies) {
  for (const std::string& policy : policies) config.libraries.trust(policy);
  if (open) open->config.libraries = config.libraries;
}

CommandOption scale_option(std::vector<cost::NamedFactor>& scales) {
  return {.names = "--scale",
          .target = [&scales](const std::string& value) { scales.push_back(cost::parse_cost_scale(value)); },
          .value = "PATTERN=FACTOR",
          .help =
              "what if tasks took so many times as long: 'gemm*=0.8'; by operation or name ('mb*.L3.*=2'); of a graph "
              "file, =0 takes their launches away, too; may be repeated",
          .arity = Arity::each};
}

StepReader::StepReader(const StepSource& source, std::int64_t world_size) : source_(source), world_size_(world_size) {
  if (!source.open) return;
  OpenSettings settings = *source.open;
  for (const cost::NamedFactor& scale : source.scales) {
    if (scale.factor == 0) settings.gone.push_back(scale.pattern);
  }
  open_ = open_input(settings);
  open_->as_recorded = open_->as_recorded && source.scales.empty();
  scale_costs(open_->problem, source.scales);
}

study::PolicyStep StepReader::step(const std::string& policy) {
  if (!open_) {
    return step_of(policy.empty() ? train::resolve(source_.config, world_size_)
                                  : train::resolve_with(source_.config, policy, world_size_));
  }
  study::PolicyStep step;
  step.problem = open_->problem;
  step.report.policy = policy.empty() ? open_->policy : policy::named_policy(policy, source_.config.libraries);
  step.note = open_->order_note;
  if (step.report.policy.name == policy::RecordedPolicy().name() && keeps_what_is_known(*source_.open)) {
    // What happened has the waits, too, that other policies needn't keep.
    OpenSettings all = *source_.open;
    all.flags.kept = graph::to_string(graph::KeptOrder::all);
    // The graph has been changed as these ask.
    all.flags.no_host = false;
    all.flags.bucket_mb = 0;
    all.flags.recorded_on.clear();
    step.problem = open_input(open_->graph, all).problem;
    scale_costs(step.problem, source_.scales);
  }
  return step;
}

study::PolicyStep StepReader::step_of(train::ResolvedRun run) {
  if (profile_) run.profile = profile_;
  const std::string graphs = graphs_of(run);
  auto known = std::ranges::find(problems_, graphs, &std::pair<std::string, simulate::Problem>::first);
  if (known == problems_.end()) {
    known = problems_.emplace(problems_.end(), graphs, train::planning_problem(run));
    scale_costs(known->second, source_.scales);
  }
  study::PolicyStep step;
  step.problem = known->second;
  step.report.policy = run.policy;
  step.note = train::summation_note(run.config);
  step.run = std::move(run);
  return step;
}

std::vector<study::PolicyStep> StepReader::steps(const std::vector<std::string>& policies) {
  std::vector<study::PolicyStep> steps;
  for (const std::string& name : policies) {
    if (!name.empty()) (void)policy::named_policy(name, source_.config.libraries);
  }
  for (const std::string& name : policies) {
    study::PolicyStep& made = steps.emplace_back();
    try {
      made = step(name);
    } catch (const UserError& error) {
      if (policies.size() == 1) throw;
      made.report.policy.name = name;
      made.report.refusal = error.what();
    }
  }
  return steps;
}

void StepReader::take_profile(std::shared_ptr<const cost::Profile> profile) {
  profile_ = std::move(profile);
  problems_.clear();
}

std::string graphs_of(const train::ResolvedRun& run) {
  const train::RunConfig& config = run.config;
  const graph::PipelineChunks& chunks = config.pipeline.chunks;
  return fmt::format("{}: {} stages a rank ({}) of {} layers, micro-batches of {}, sums in {}, recomputing {}; {}",
                     graph::to_string(config.grid), chunks.chunks, to_string(chunks.placement),
                     fmt::join(config.pipeline.layers, ","), config.micro_batch, to_string(config.reduce_dtype),
                     config.recompute == train::Recompute::none ? "nothing" : "blocks",
                     plan::to_string(std::span<const plan::Rewrite>(train::chosen_rewrites(run))));
}

void plan_step(study::PolicyStep& step) {
  step.report = simulate::report_plan(step.problem, step.report.policy);
}

}  // namespace weft::tools
