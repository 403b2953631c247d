// Rewrites of whole training steps: on every grid the bits of the plain run, and the graphs of the lowering's own
// flags.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"

namespace weft::train {
namespace {

// Vectors of 64 bytes and more, so that some join a bucket, in blocks that every axis divides.
testing::GridRun tiny_grid_run(ops::Family family, const graph::Grid& grid) {
  return {.model = testing::of_family(
              family, {.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 48, .vocab = 37, .context = 8}),
          .step = {.seq_len = 8, .micro_batches = 2, .grid = grid, .pipeline = {}, .dropout = 0.2F, .clip = 0.5F},
          .steps = 4};
}

class RewrittenTraining : public ::testing::TestWithParam<ops::Family> {};

INSTANTIATE_TEST_SUITE_P(Families, RewrittenTraining, ::testing::Values(ops::Family::gpt2, ops::Family::llama),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(RewrittenTraining, Bf16OverNarrowMessages) {
  testing::GridRun run = tiny_grid_run(GetParam(), {1, 1, 2, 2});
  run.step.dtype = run.step.reduce_dtype = DType::bf16;
  run.step.zero1 = true;
  const testing::GridOutcome expected = testing::run_grid(run);
  run.rewrites = "recompute=1;reshard=0;bucket;split-collective=128;ar-to-rs-ag";
  testing::expect_equal(testing::run_grid(run), expected);
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
  for (const graph::Grid& grid : {graph::Grid{2, 1, 1, 1}, graph::Grid{1, 1, 2, 2}, graph::Grid{2, 2, 1, 1}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = tiny_grid_run(GetParam(), grid);
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
