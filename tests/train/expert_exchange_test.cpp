// Experts on ranks of their own: with rows sent to the experts and back, a grid trains like one rank, whatever the
// router chooses, and no policy changes a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/analysis.h"
#include "ops/lower.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"

namespace weft::train {
namespace {

testing::GridRun exchange_run(testing::ModelKind kind, const graph::Grid& grid) {
  return testing::run_of_experts(kind, grid, 4);
}

// All ranks of z neighbours or pairs of them, with each other axis, and with neighbours that share sequences.
const std::vector<graph::Grid>& grids_with_experts() {
  static const std::vector<graph::Grid> all = {{.z = 2, .expert = 2},
                                               {.z = 4, .expert = 2},
                                               {.z = 4, .expert = 4},
                                               {.x = 2, .z = 2, .expert = 2},
                                               {.y = 2, .z = 2, .expert = 2},
                                               {.z = 2, .data = 2, .expert = 2},
                                               {.y = 2, .z = 4, .expert = 2},
                                               {.z = 4, .context = 2, .expert = 4},
                                               {.z = 2, .context = 2, .expert = 2}};
  return all;
}

class ExpertExchange : public ::testing::TestWithParam<testing::ModelKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, ExpertExchange,
                         ::testing::Values(testing::ModelKind::mixtral, testing::ModelKind::qwen3_moe),
                         testing::kNameOfParam);

TEST_P(ExpertExchange, TrainsLikeOneRank) {
  const testing::GridOutcome expected = testing::run_grid(exchange_run(GetParam(), {}));
  for (const graph::Grid& grid : grids_with_experts()) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = exchange_run(GetParam(), grid);
    run.step.recompute_blocks = grid.y > 1 || grid.context > 1;
    run.step.reshard_after_forward = grid.z > 2;
    run.step.zero1 = grid.data > 1;
    testing::expect_like_one_rank(testing::run_grid(run), expected);
  }
}

TEST(ExpertExchanges, OfRowsThatYCutsTrainLikeOneRank) {
  const testing::GridOutcome expected = testing::run_grid(exchange_run(testing::ModelKind::mixtral, {}));
  for (const graph::Grid& grid :
       {graph::Grid{.y = 2, .z = 2, .expert = 2}, graph::Grid{.x = 2, .y = 2, .z = 2, .expert = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = exchange_run(testing::ModelKind::mixtral, grid);
    run.step.sequence_parallel = true;
    testing::expect_like_one_rank(testing::run_grid(run), expected);
  }
}

TEST(ExpertExchanges, WithinStagesTrainLikeOneRank) {
  const testing::GridOutcome expected = testing::run_grid(exchange_run(testing::ModelKind::mixtral, {}));
  testing::GridRun run = exchange_run(testing::ModelKind::mixtral, {.z = 2, .pipe = 2, .expert = 2});
  run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, 2);
  run.policy = "1f1b";
  const testing::GridOutcome found = testing::run_grid(run);
  testing::expect_like_one_rank(found, expected);
  run.policy = "zb-h1";
  testing::expect_equal(testing::run_grid(run), found);
}

TEST(ExpertExchanges, ScatterEachMicroBatchBesideThem) {
  const testing::GridOutcome expected = testing::run_grid(exchange_run(testing::ModelKind::mixtral, {}));
  testing::GridRun run = exchange_run(testing::ModelKind::mixtral, {.z = 4, .expert = 2});
  run.step.gradient_reduction = ops::GradientReduction::micro_batch;
  testing::expect_like_one_rank(testing::run_grid(run), expected);
}

TEST(ExpertExchanges, PoliciesAndRewritesChangeNoBit) {
  for (const graph::Grid& grid : {graph::Grid{.y = 2, .z = 2, .expert = 2}, graph::Grid{.z = 4, .expert = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = exchange_run(testing::ModelKind::mixtral, grid);
    run.steps = 2;
    const testing::GridOutcome expected = testing::run_grid(run);
    testing::expect_equal_under_policies(run, expected);
    run.rewrites = "recompute;reshard;bucket=2KB;split-collective=1KB;ar-to-rs-ag";
    testing::expect_equal(testing::run_grid(run), expected);
    run.rewrites = "";
    run.step.recompute_blocks = true;
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

// A router of zeros: of equal logits the first experts' win, which one rank has. So it gets as many rows as it can.
TEST(ExpertExchanges, AllTokensToOneRanksExpertsTrainLikeOneRank) {
  const auto on = [](const graph::Grid& grid) {
    testing::GridRun run = exchange_run(testing::ModelKind::mixtral, grid);
    run.steps = 1;
    run.step.eps = 1e-4F;  // a router of zeros has gradients near zero, whose rounding AdamW's first step would magnify
    run.change_weights = [](const execute::State& state) {
      for (const char* name : {"L0.mlp.router.weight", "L1.mlp.router.weight"})
        std::ranges::fill(state.get<float>(name), 0.0F);
    };
    return run;
  };
  const testing::GridOutcome expected = testing::run_grid(on({}));
  for (const graph::Grid& grid : {graph::Grid{.z = 2, .expert = 2}, graph::Grid{.z = 4, .expert = 4}}) {
    SCOPED_TRACE(graph::to_string(grid));
    const testing::GridRun run = on(grid);
    const auto lowered = ops::lower_train(run.model, run.step);
    const auto& rows = testing::operation<graph::ExchangeRows>(*lowered, "mb0.L0.mlp.experts.up.fwd.exchange");
    // Two choices: with two experts a rank both may be one rank's.
    EXPECT_EQ(rows.most, grid.expert * rows.rows / (grid.expert == 2 ? 1 : 2));
    testing::expect_like_one_rank(testing::run_grid(run), expected);
  }
}

TEST(ExpertExchanges, AdaptersOfAttentionTrainLikeOneRank) {
  const auto on = [](const graph::Grid& grid) {
    testing::GridRun run = exchange_run(testing::ModelKind::mixtral, grid);
    run.model.lora = {.rank = 4, .on = ops::kLoraQkv | ops::kLoraOut};
    return testing::run_grid(run);
  };
  testing::expect_like_one_rank(on({.z = 2, .data = 2, .expert = 2}), on({}));
}

}  // namespace
}  // namespace weft::train
