// No step of an ideal machine does more than all of its operations: MFU ends at 100 %.
#include "train/run/model_speed.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/simulate/report.h"
#include "tests/ops/tiny_model.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::train {
namespace {

using testing::ModelKind;

/// Products reach the peak rate at any shape; bytes, messages and starts take no time.
std::shared_ptr<const cost::Machine> ideal_machine() {
  constexpr double kInfinite = 1e30;
  cost::Machine machine;
  machine.memory_bandwidth = machine.memory_bytes = machine.pair_bandwidth = kInfinite;
  machine.node = machine.network = {.latency = 0, .bandwidth = kInfinite};
  machine.task_overhead = 0;
  return std::make_shared<const cost::Machine>(machine);
}

struct SpeedCase {
  std::string name;
  ops::ModelConfig model;
  graph::Grid grid = {};
  Recompute recompute = Recompute::none;
};

/// Wide enough that most operations are those of products.
ops::ModelConfig wide_model(ModelKind kind) {
  ops::ModelConfig model = testing::tiny_model(
      kind, {.layers = 2, .hidden = 512, .heads = 8, .kv_heads = 2, .ffn = 1024, .vocab = 4096, .context = 256});
  if (model.head_size > 0) model.head_size = 96;
  if (model.window > 0) model.window = 100;
  return model;
}

std::vector<SpeedCase> speed_cases() {
  std::vector<SpeedCase> all;
  for (const ModelKind kind : testing::kEveryKind) {
    SpeedCase each{testing::to_string(kind), wide_model(kind)};
    for (const bool tied : {false, true}) {
      each.model.tied = tied;
      all.push_back(each);
    }
  }
  const SpeedCase gpt2{"gpt2", wide_model(ModelKind::gpt2)}, llama{"llama", wide_model(ModelKind::llama)};
  for (SpeedCase each : {gpt2, llama}) {
    all.push_back({each.name + " recomputed", each.model, {}, Recompute::block});
    all.push_back({each.name + " on a grid", each.model, {.x = 2, .y = 2, .z = 2, .data = 2}});
    each.model.lora = {.rank = 4};
    all.push_back({each.name + " with adapters", each.model});
    each.model.lora.on = ops::kLoraMlp;
    all.push_back({each.name + " with adapters of the MLP", each.model});
    all.push_back({each.name + " with them, recomputed", each.model, {}, Recompute::block});
  }
  return all;
}

double ideal_share(const SpeedCase& each, std::int64_t seq_len) {
  RunConfig config;
  config.model = each.model;
  config.model_name = "custom";
  config.grid = each.grid;
  config.ranks = each.grid.ranks();
  config.recompute = each.recompute;
  config.seq_len = seq_len;
  config.global_batch = 16;
  config.dtype = DType::bf16;
  config.policy = "program";
  ResolvedRun run = resolve(config, 0);
  run.machine = ideal_machine();
  const simulate::Report report = simulate::report_plan(planning_problem(run), run.policy);
  EXPECT_EQ(report.refusal, "");
  return model_flops_share(run.config, run.config.grid.ranks(), *run.machine, report.step_ns());
}

TEST(ModelSpeed, AnIdealMachineReachesNoMoreThanItsRate) {
  const std::vector<SpeedCase> all = speed_cases();
  EXPECT_GE(all.size(), 30U);
  for (const SpeedCase& each : all) {
    const bool again = each.recompute == Recompute::block;
    for (const std::int64_t seq_len : {256, 32}) {
      const double share = ideal_share(each, seq_len);
      EXPECT_LE(share, 1) << each.name;
      // What is computed beside the products: norms, activations, the optimizer, and scores a second time.
      EXPECT_GE(share, again ? 0.6 : 0.75) << each.name;
    }
  }
}

TEST(ModelSpeed, IsOfAllRanksTogether) {
  RunConfig config;
  config.model = ops::model_by_name("gpt2-124m");
  config.seq_len = 1024;
  config.global_batch = 8;
  cost::Machine machine;
  machine.flops_f32 = 1e12;
  EXPECT_DOUBLE_EQ(tokens_per_second(config, 2e9), 4096);
  EXPECT_DOUBLE_EQ(model_flops_share(config, 4, machine, 2e9), model_flops_per_second(config, 2e9) / 4e12);
  config.global_batch = 16;
  EXPECT_DOUBLE_EQ(tokens_per_second(config, 2e9), 8192);
}

}  // namespace
}  // namespace weft::train
