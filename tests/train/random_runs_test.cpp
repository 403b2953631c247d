// A property of every run: for any model, batch and flags, no policy and no number of threads changes a bit of the
// results under `serial`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "runtime/policy/policy.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/train/tiny_run.h"

namespace weft::train {
namespace {

// Draws a run that resolve() accepts.
RunConfig random_run(const testing::TemporaryFolder& folder, std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  RunConfig config = testing::tiny_run(folder, draw(0, 1) == 0 ? ops::Family::gpt2 : ops::Family::llama);
  ops::ModelConfig& model = config.model;
  model.layers = draw(1, 3);
  model.kv_heads = draw(1, 3);
  model.heads = model.kv_heads * draw(1, 2);
  if (model.family == ops::Family::gpt2) model.kv_heads = model.heads;
  model.hidden = model.heads * 2 * draw(1, 5);
  model.ffn = draw(3, 50);
  model.context = draw(4, 24);
  model.tied = draw(0, 1) == 0;
  config.seq_len = draw(2, model.context);
  config.dtype = draw(0, 2) == 0 ? DType::bf16 : DType::f32;
  config.ranks = draw(1, 3);
  config.micro_batch = draw(1, 3);
  config.global_batch = config.ranks * config.micro_batch * draw(1, 3);
  config.recompute = draw(0, 1) == 0 ? Recompute::none : Recompute::block;
  config.dropout = 0.1F * static_cast<float>(draw(0, 3));
  config.clip = draw(0, 1) == 0 ? 0.0F : 0.3F;
  config.weight_decay = draw(0, 1) == 0 ? 0.0F : 0.1F;
  config.schedule = static_cast<Schedule>(draw(0, 3));
  config.seed = static_cast<std::uint64_t>(draw(0, 1'000'000));
  config.steps = 3;
  config.warmup = 1;
  config.eval_sequences = 2;
  config.trace_steps = 0;
  return config;
}

TEST(RandomRuns, EveryPolicyComputesTheBitsOfSerial) {
  std::mt19937 random(20);
  const testing::TemporaryFolder folder;
  for (int trial = 0; trial < 8; ++trial) {
    RunConfig config = random_run(folder, random);
    const ops::ModelConfig& model = config.model;
    SCOPED_TRACE(fmt::format("trial {}: {}, {} layers, {} heads of {}, {} ranks, {} of {} sequences, {}", trial,
                             ops::to_string(model.family), model.layers, model.heads, model.head_dim(), config.ranks,
                             config.micro_batch, config.global_batch, to_string(config.dtype)));
    config.policy = "serial";
    const testing::RunOutcome expected = testing::train_run(config);
    ASSERT_EQ(expected.exit_code, 0) << expected.errors;
    for (const std::string& policy : testing::quick_graph_policies()) {
      config.policy = policy;
      config.threads = 1 + trial % 3;
      const testing::RunOutcome found = testing::train_run(config);
      ASSERT_EQ(found.exit_code, 0) << found.errors;
      EXPECT_EQ(testing::first_difference(found.state, expected.state), "") << policy << ", threads " << config.threads;
      EXPECT_EQ(found.result.val_loss, expected.result.val_loss) << policy;
    }
  }
}

}  // namespace
}  // namespace weft::train
