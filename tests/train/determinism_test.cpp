// The bar: policies, thread counts and recomputation change no bit, for any model, batch and flags. (Of grids:
// fine_tuning_test, grid_resume_test.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/runtime/policy/quick_policies.h"
#include "tests/train/tiny_run.h"

namespace weft::train {
namespace {

std::vector<testing::RunKind> kinds_of_runs() {
  std::vector<testing::RunKind> all;
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t ranks : {1, 2, 4}) all.push_back({family, dtype, ranks});
    }
  }
  all.push_back({ops::Family::mixtral, DType::f32, 2});
  all.push_back({ops::Family::mixtral, DType::bf16, 1});
  return all;
}

class Determinism : public ::testing::TestWithParam<testing::RunKind> {};

INSTANTIATE_TEST_SUITE_P(Bar, Determinism, ::testing::ValuesIn(kinds_of_runs()), testing::kNameOfParam);

TEST_P(Determinism, SchedulesThreadsAndRecomputationChangeNoBit) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, GetParam().family);
  config.dtype = GetParam().dtype;
  config.ranks = GetParam().ranks;
  config.trace_steps = 0;
  const testing::RunOutcome expected = testing::train_run(config);
  EXPECT_LT(expected.result.last_loss, expected.result.first_loss - 0.05);  // it did learn something
  struct Variant {
    const char* policy;
    std::int64_t threads;
    Recompute recompute;
  };
  for (const Variant& variant : {Variant{"serial", 1, Recompute::none}, Variant{"program", 2, Recompute::none},
                                 Variant{"program", 1, Recompute::block}, Variant{"serial", 2, Recompute::block}}) {
    config.policy = variant.policy;
    config.threads = variant.threads;
    config.recompute = variant.recompute;
    const testing::RunOutcome found = testing::train_run(config);
    EXPECT_EQ(testing::first_difference(found.state, expected.state), "")
        << variant.policy << ", threads " << variant.threads << ", recompute "
        << (variant.recompute == Recompute::block ? "block" : "none");
    EXPECT_EQ(found.result.last_loss, expected.result.last_loss);
    EXPECT_EQ(found.result.val_loss, expected.result.val_loss);
  }
}

class DataParallel : public ::testing::TestWithParam<ops::Family> {};

INSTANTIATE_TEST_SUITE_P(Families, DataParallel, testing::kFamilies, testing::kNameOfParam);

TEST_P(DataParallel, EveryRandomNumberComesFromTheSeed) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, GetParam());
  config.ranks = 2;
  config.steps = 2;
  const testing::RunOutcome first = testing::train_run(config);
  EXPECT_EQ(testing::first_difference(testing::train_run(config).state, first.state), "");
  config.seed += 1;
  EXPECT_NE(testing::first_difference(testing::train_run(config).state, first.state), "");
}

// Wide enough that every kernel cuts its work into several slices.
TEST_P(DataParallel, ThreadsChangeNoBitWhereWorkIsCut) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, GetParam());
  config.model.hidden = 160;
  config.model.ffn = 480;
  config.model.context = 96;
  config.global_batch = 6;
  config.micro_batch = 3;
  config.ranks = 2;
  config.steps = 2;
  config.eval_sequences = 2;
  const testing::RunOutcome expected = testing::train_run(config);
  for (const std::int64_t threads : {2, 3}) {
    config.threads = threads;
    EXPECT_EQ(testing::first_difference(testing::train_run(config).state, expected.state), "") << threads << " threads";
  }
}

// ---- for any model, batch and flags

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
