#include "train/measure/stage_computations.h"

#include <array>
#include <utility>

#include "ops/lower.h"
#include "runtime/execute/cpu/cpu_weight_layouts.h"
#include "runtime/execute/cpu/shared_cores.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "train/measure/benchmark_state.h"
#include "train/measure/bf16_products.h"
#include "train/measure/silent_world.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"
#include "train/step/step_graphs.h"
#include "train/step/training_state.h"

namespace weft::train {

StageComputations::StageComputations(comm::World& world, const ResolvedRun& run)
    : world_(world),
      run_(with_bf16(run, bf16_of_run(world, run.config))),
      at_(graph::coordinates_of(run_.config.grid, world.rank())),
      pools_(execute::shared_cores(world, run_.config.threads)),
      specs_(ops::model_parameters(run_.config.model)),
      shards_(shards_of(run_.config, specs_, at_)) {
  policy::PolicyOptions options;
  options.weight_layouts = &execute::cpu_weight_layouts();
  plan_ = std::make_shared<const plan::Plan>(policy::compile_plan(train_graph(run_.config, at_.pipe).graph,
                                                                  *policy::named_policy("serial").policy, options,
                                                                  chosen_rewrites(run_)));
  std::vector<graph::Channel> channels;
  for (const plan::StreamPlan& stream : plan_->streams) {
    if (!stream.stream.compute) channels.push_back(stream.stream.channel);
  }
  state_ = std::make_unique<execute::State>(std::array{plan_->graph.get()});
  SilentWorld silent;
  executor_ = std::make_unique<execute::CpuExecutor>(
      *state_, execute::CommunicatorSet(silent, channels, run_.config.grid),
      execute::CpuExecutorOptions{.rank = world.rank(),
                                  .threads = static_cast<int>(run_.config.threads),
                                  .gemm_tuning = execute::table_of(nullptr, bf16_unit_of(run_.config))});
  loaded_ = executor_->load(plan_);
  begin_benchmark(*state_, run_.config, at_, shards_);
}

double StageComputations::run() {
  write_scalars(*state_, run_.config, step_);
  const execute::Turns turns = execute::turns_of(pools_, world_.rank(), run_.config.threads);
  for (std::int64_t turn = 0; turn < turns.count; ++turn) {
    world_.barrier();
    if (turn == turns.own) executor_->run(loaded_, step_);
  }
  world_.barrier();  // waits without taking the cores of a rank that still computes, unlike other collectives
  ++step_;
  return static_cast<double>(last_trace().end - last_trace().begin);
}

}  // namespace weft::train
