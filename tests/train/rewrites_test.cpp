// Rewrites of whole training steps: on every grid the bits of the plain run, and the graphs of the lowering's own
// flags.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/train/grid_run.h"

namespace weft::train {
namespace {

// Vectors of 64 bytes and more, so that some join a bucket, in blocks that every axis divides.
testing::GridRun tiny_grid_run(ops::Family family, std::int64_t x, std::int64_t y, std::int64_t z, std::int64_t data) {
  testing::GridRun run;
  run.model.family = family;
  run.model.layers = 2;
  run.model.hidden = 32;
  run.model.heads = 4;
  run.model.kv_heads = family == ops::Family::llama ? 2 : 4;
  run.model.ffn = 48;
  run.model.vocab = 37;
  run.model.context = 8;
  run.model.tied = family == ops::Family::gpt2;
  run.step.grid.x = x, run.step.grid.y = y, run.step.grid.z = z, run.step.grid.data = data;
  run.step.seq_len = 8;
  run.step.micro_batches = 2;
  run.step.micro_batch = 1;
  run.step.dropout = 0.2F;
  run.step.clip = 0.5F;
  run.steps = 10;
  return run;
}

std::vector<testing::GridRun> runs(ops::Family family) {
  return {tiny_grid_run(family, 2, 1, 1, 1), tiny_grid_run(family, 1, 1, 2, 2), tiny_grid_run(family, 2, 2, 1, 1)};
}

std::int64_t changes(const testing::GridRun& run, const std::string& rewrites) {
  const auto graph = ops::lower_train(run.model, run.step);
  return static_cast<std::int64_t>(plan::rewrite(graph, plan::parse_rewrites(rewrites))->tasks().size()) -
         static_cast<std::int64_t>(graph->tasks().size());
}

class RewrittenTraining : public ::testing::TestWithParam<ops::Family> {};

INSTANTIATE_TEST_SUITE_P(Families, RewrittenTraining, ::testing::Values(ops::Family::gpt2, ops::Family::llama),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(RewrittenTraining, TenStepsChangeNoBit) {
  std::map<std::string, std::int64_t> changed;
  for (testing::GridRun run : runs(GetParam())) {
    const testing::GridOutcome expected = testing::run_grid(run);
    ASSERT_EQ(expected.exit_code, 0) << expected.errors;
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    for (const char* rewrites : {"bucket=25MB", "split-collective=256", "ar-to-rs-ag", "reshard", "recompute",
                                 "recompute;reshard;bucket=2KB;split-collective=1KB;ar-to-rs-ag"}) {
      SCOPED_TRACE(graph::to_string(run.step.grid) + " " + rewrites);
      changed[rewrites] += std::abs(changes(run, rewrites));
      run.rewrites = rewrites;
      const testing::GridOutcome found = testing::run_grid(run);
      ASSERT_EQ(found.exit_code, 0) << found.errors;
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.norms, expected.norms);
      EXPECT_TRUE(found.arrays == expected.arrays);
    }
  }
  for (const auto& [rewrites, count] : changed) EXPECT_GT(count, 0) << rewrites;
}

TEST_P(RewrittenTraining, Bf16OverNarrowMessages) {
  testing::GridRun run = tiny_grid_run(GetParam(), 1, 1, 2, 2);
  run.step.dtype = run.step.reduce_dtype = DType::bf16;
  run.step.zero1 = true;
  run.steps = 4;
  const testing::GridOutcome expected = testing::run_grid(run);
  run.rewrites = "recompute=1;reshard=0;bucket;split-collective=128;ar-to-rs-ag";
  const testing::GridOutcome found = testing::run_grid(run);
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_TRUE(found.arrays == expected.arrays);
}

// The number of tasks of each operation, layer, micro-batch and phase in the layers of a graph. (Embeddings that only
// the forward pass reads stay gathered under the rewrite.)
std::map<std::string, int> census(const graph::Graph& graph) {
  std::map<std::string, int> counts;
  for (const graph::Task& task : graph.tasks()) {
    if (task.layer < 0) continue;
    ++counts[std::string(graph::kind_name(task.operation)) + " L" + std::to_string(task.layer) + " mb" +
             std::to_string(task.micro_batch) + " " + std::string(graph::to_string(task.phase))];
  }
  return counts;
}

TEST_P(RewrittenTraining, TheLoweringsFlagsAreTheSameRewrites) {
  for (testing::GridRun run : runs(GetParam())) {
    SCOPED_TRACE(graph::to_string(run.step.grid));
    const auto plain = ops::lower_train(run.model, run.step);
    run.step.recompute_blocks = true;
    const auto recomputed = ops::lower_train(run.model, run.step);
    EXPECT_EQ(census(*plan::rewrite(plain, plan::parse_rewrites("recompute"))), census(*recomputed));
    EXPECT_EQ(plan::rewrite(recomputed, plan::parse_rewrites("recompute"))->fingerprint(), recomputed->fingerprint());
    run.step.recompute_blocks = false;
    run.step.reshard_after_forward = true;
    const auto resharded = ops::lower_train(run.model, run.step);
    EXPECT_EQ(census(*plan::rewrite(plain, plan::parse_rewrites("reshard"))), census(*resharded));
    EXPECT_EQ(plan::rewrite(resharded, plan::parse_rewrites("reshard"))->fingerprint(), resharded->fingerprint());
  }
}

}  // namespace
}  // namespace weft::train
