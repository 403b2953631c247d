// Models with experts on grids: policies and rewrites change no bit, adapters of attention train beside them, and
// layers without experts stand between them. Runs are compared with the choices of one rank. (Every grid, with and
// without sequence parallelism: grid_test, sequence_parallel_test.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"

namespace weft::train {
namespace {

testing::GridRun short_run(testing::ModelKind kind, const graph::Grid& grid) {
  return testing::run_of_experts(kind, grid, 3);
}

TEST(ExpertGrids, PoliciesAndRewritesChangeNoBit) {
  for (const graph::Grid& grid : {graph::Grid{.x = 2, .y = 2}, graph::Grid{.y = 2, .z = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = short_run(testing::ModelKind::mixtral, grid);
    run.step.sequence_parallel = grid.z > 1;
    const testing::GridOutcome expected = testing::run_grid(run);
    testing::expect_equal_under_policies(run, expected);
    run.rewrites = "recompute;reshard;bucket=2KB;split-collective=1KB;ar-to-rs-ag";
    testing::expect_equal(testing::run_grid(run), expected);
    run.rewrites = "";
    run.step.recompute_blocks = true;
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

TEST(ExpertGrids, StagesKeepTheirBitsUnderSchedules) {
  testing::GridRun run = short_run(testing::ModelKind::qwen3_moe, {.y = 2, .pipe = 2});
  run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, 2);
  run.policy = "1f1b";
  const testing::GridOutcome expected = testing::run_grid(run);
  for (const char* policy : {"gpipe", "zb-h1"}) {
    SCOPED_TRACE(policy);
    run.policy = policy;
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

// A step with recorded choices has the bits of a free one, and so has a step on the same grid that replays them, on any
// layer and rank. Choices of another run are taken, whatever the logits say.
TEST(ExpertGrids, ReplayedChoicesAreTaken) {
  for (const graph::Grid& grid :
       {graph::Grid{.x = 2, .z = 2}, graph::Grid{.y = 2, .data = 2}, graph::Grid{.pipe = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = short_run(testing::ModelKind::qwen3_moe, grid);
    if (grid.pipe > 1) {
      run.policy = "1f1b";
      run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, 2);
    }
    const testing::GridOutcome free = testing::run_grid(run), recorded = testing::run_grid(testing::recording(run));
    testing::expect_equal(recorded, free);
    run = testing::replaying(recorded, run);
    testing::expect_equal(testing::run_grid(run), free);
    run.step.recompute_blocks = true;
    testing::expect_equal(testing::run_grid(run), free);
    run.step.recompute_blocks = false;
    for (std::uint16_t& expert : run.choices.front()) expert = static_cast<std::uint16_t>(7 - expert);
    for (auto token = run.choices.front().begin(); token != run.choices.front().end(); token += 3) {
      std::sort(token, token + 3);
    }
    EXPECT_NE(testing::run_grid(run).losses.front(), free.losses.front());
  }
}

// Gradients of each micro-batch are scattered from buffers that layers share; between two layers of one buffer stands
// another layer.
TEST(ExpertGrids, LayersWithoutExpertsMayStandBetweenThem) {
  const auto run_on = [](const graph::Grid& grid) {
    testing::GridRun run = short_run(testing::ModelKind::qwen3_moe, grid);
    run.model.layers = 4;
    run.model.dense_layers = ops::LayerSet({1, 3});
    return run;
  };
  const testing::GridOutcome expected = testing::run_grid(testing::recording(run_on({})));
  for (const graph::Grid& grid : {graph::Grid{.z = 2}, graph::Grid{.y = 2, .z = 2}}) {
    for (const auto reduction : {ops::GradientReduction::step, ops::GradientReduction::micro_batch}) {
      SCOPED_TRACE(graph::to_string(grid));
      testing::GridRun run = testing::replaying(expected, run_on(grid));
      run.step.gradient_reduction = reduction;
      testing::expect_like_one_rank(testing::run_grid(run), expected);
    }
  }
}

TEST(ExpertGrids, AdaptersOfAttentionTrainLikeOneRank) {
  const auto run_on = [](const graph::Grid& grid) {
    testing::GridRun run = short_run(testing::ModelKind::mixtral, grid);
    run.model.lora = {.rank = 4, .on = ops::kLoraQkv | ops::kLoraOut};
    return run;
  };
  const testing::GridOutcome expected = testing::run_grid(testing::recording(run_on({})));
  for (const graph::Grid& grid : {graph::Grid{.x = 2, .y = 2}, graph::Grid{.z = 2, .data = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::expect_like_one_rank(testing::run_grid(testing::replaying(expected, run_on(grid))), expected);
  }
}

}  // namespace
}  // namespace weft::train
