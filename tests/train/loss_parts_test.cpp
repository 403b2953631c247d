// Logits and loss in parts of rows: a step trains like the whole one, and keeps the logits of one part.
#include <gtest/gtest.h>

#include "graph/analysis.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"

namespace weft::train {
namespace {

testing::GridRun run_in_parts(ops::Family family, const graph::Grid& grid, std::int64_t parts) {
  return {.model = testing::of_family(
              family, {.layers = 2, .hidden = 48, .heads = 12, .kv_heads = 12, .ffn = 60, .vocab = 61, .context = 12}),
          .step = {.micro_batch = 24 / (2 * grid.batch_ranks()),
                   .seq_len = 6,
                   .micro_batches = 2,
                   .grid = grid,
                   .pipeline = {},
                   .loss_parts = parts,
                   .dropout = 0.1F,
                   .clip = 0.5F},
          .steps = 4};
}

// A head with weights of its own, and one that is the embedding, whose gradient has further contributions.
TEST(LossParts, TrainLikeTheWhole) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    const testing::GridOutcome expected = testing::run_grid(run_in_parts(family, {}, 1));
    for (const graph::Grid& grid : {graph::Grid{}, graph::Grid{.x = 2, .y = 2}, graph::Grid{.z = 2, .data = 2},
                                    graph::Grid{.y = 2, .z = 2, .context = 2}}) {
      for (const auto reduction : {ops::GradientReduction::step, ops::GradientReduction::micro_batch}) {
        SCOPED_TRACE(graph::to_string(grid));
        testing::GridRun run = run_in_parts(family, grid, 3);
        run.step.gradient_reduction = reduction;
        run.step.reshard_after_forward = grid.data > 1;
        run.step.recompute_blocks = grid.x > 1;
        testing::expect_like_one_rank(testing::run_grid(run), expected);
      }
    }
  }
}

TEST(LossParts, KeepBitsUnderPoliciesAndRewrites) {
  testing::GridRun run = run_in_parts(ops::Family::llama, {.y = 2, .z = 2}, 3);
  const testing::GridOutcome expected = testing::run_grid(run);
  testing::expect_equal_under_policies(run, expected);
  run.rewrites = "recompute;reshard;bucket=2KB;split-collective=1KB;ar-to-rs-ag";
  testing::expect_equal(testing::run_grid(run), expected);
}

// The evaluation's graph too: both have their scratch in one arena.
TEST(LossParts, KeepTheLogitsOfOnePart) {
  const ops::ModelConfig model = testing::of_family(
      ops::Family::llama,
      {.layers = 1, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 16, .vocab = 4096, .context = 1024});
  const auto peak = [](const graph::Graph& graph) {
    return graph::liveness(graph, graph::topological_order(graph)).peak_bytes;
  };
  const auto step = [](std::int64_t parts) {
    return ops::StepConfig{.seq_len = 1024, .grid = {}, .pipeline = {}, .loss_parts = parts};
  };
  constexpr std::int64_t kLogits = 1024 * 4096 * 4;  // bytes
  EXPECT_GE(peak(*ops::lower_train(model, step(1))), kLogits);
  EXPECT_LE(peak(*ops::lower_train(model, step(8))), peak(*ops::lower_train(model, step(1))) - kLogits * 3 / 4);
  EXPECT_GE(peak(*ops::lower_eval(model, step(1))), kLogits);
  EXPECT_LE(peak(*ops::lower_eval(model, step(8))), kLogits / 4);
}

}  // namespace
}  // namespace weft::train
