#include "train/step/run_graphs.h"

#include <utility>

#include "ops/lower.h"
#include "runtime/execute/program/agree_on_plan.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

template <class Lower>
execute::ProgramGraph graph_of(const char* name, const RunConfig& config, std::int64_t pipe,
                               std::shared_ptr<const policy::Policy> policy, Lower lower) {
  const auto of_stage = [lower, model = config.model, step = step_config(config)](std::int64_t stage) {
    return lower(model, step, stage);
  };
  return {name, of_stage(pipe), std::move(policy), of_stage};
}

}  // namespace

execute::ProgramGraph train_graph(const RunConfig& config, std::int64_t pipe) {
  return graph_of("train", config, pipe, nullptr, ops::lower_train);
}

execute::ProgramGraph eval_graph(const RunConfig& config, std::int64_t pipe) {
  return graph_of("eval", config, pipe, forward_policy(config), ops::lower_eval);
}

std::shared_ptr<const policy::Policy> forward_policy(const RunConfig& config) {
  return config.pipeline.layers.empty() ? nullptr : policy::default_policy();
}

std::uint64_t compiled_fingerprint(RunConfig config) {
  const ResolvedRun run = resolve(std::move(config), 0);
  const plan::Plan plan =
      policy::compile(train_classes(run.config), *run.policy, policy_options(run), chosen_rewrites(run)).front();
  std::shared_ptr<const execute::TunedGemms> tuned;
  if (const TuningSetting& tuning = run.gemm_tuning; tuning.from == TuningSetting::From::file) {
    tuned = std::make_shared<const execute::TunedGemms>(
        execute::parse_gemm_tuning(execute::read_gemm_tuning_text(tuning.file), tuning.file));
  }
  const std::shared_ptr<const execute::GemmTuning> products = execute::table_of(tuned, bf16_unit_of(run.config));
  return products ? execute::with_products(plan.fingerprint, *products) : plan.fingerprint;
}

}  // namespace weft::train
