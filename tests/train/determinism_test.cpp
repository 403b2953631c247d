// The bar: policies, thread counts and recomputation change no bit. (Of grids: fine_tuning_test, grid_resume_test.)
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace weft::train
