// Pipelines train like one rank, and all schedules of one grid give the same bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"
#include "tests/train/pipeline_run.h"

namespace weft::train {
namespace {

class Pipelines : public ::testing::TestWithParam<std::tuple<ops::Family, graph::Grid>> {
 protected:
  ops::Family family() const { return std::get<0>(GetParam()); }
  graph::Grid grid() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Grids, Pipelines,
                         ::testing::Combine(::testing::Values(ops::Family::gpt2, ops::Family::llama),
                                            ::testing::Values(graph::Grid{.pipe = 2}, graph::Grid{.pipe = 3},
                                                              graph::Grid{.pipe = 4}, graph::Grid{.x = 2, .pipe = 2},
                                                              graph::Grid{.z = 2, .pipe = 2},
                                                              graph::Grid{.data = 2, .pipe = 2})),
                         [](const auto& info) {
                           const graph::Grid& grid = std::get<1>(info.param);
                           return fmt::format("{}_x{}z{}data{}pipe{}", to_string(std::get<0>(info.param)), grid.x,
                                              grid.z, grid.data, grid.pipe);
                         });

TEST_P(Pipelines, TrainLikeOneRank) {
  graph::Grid without = grid();
  without.pipe = 1;
  const testing::GridOutcome expected = testing::run_grid(testing::pipeline_run(family(), without, "program"));
  const testing::GridOutcome found = testing::run_grid(testing::pipeline_run(family(), grid(), "program"));
  ASSERT_EQ(found.arrays.size(), expected.arrays.size());
  testing::expect_like_one_rank(found, expected);
  // Only a tied embedding's gradient is added in another order.
  if (family() == ops::Family::llama) testing::expect_equal(found, expected);
}

TEST_P(Pipelines, SchedulesGiveTheSameBits) {
  const testing::GridOutcome expected = testing::run_grid(testing::pipeline_run(family(), grid(), "program"));
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  for (std::string policy : policy::pipeline_policy_names()) {
    SCOPED_TRACE(policy);
    if (policy == "anneal") policy += ":iterations=20";
    if (policy == "portfolio") policy += ":budget=20";
    if (policy == "exact") policy += ":budget=20,nodes=1000";
    const testing::GridRun run = testing::pipeline_run(family(), grid(), policy);
    // Two chunks a rank need two layers.
    if (run.step.pipeline.stages() > run.model.layers) continue;
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

// Sums over data ranks, sharded optimizer state, recomputed layers, gathered weights that are dropped, attention within
// documents: with stages as without.
TEST(PipelineFlags, KeepingAndSendingInOtherWays) {
  for (const graph::Grid& grid : {graph::Grid{.z = 2, .data = 2, .pipe = 2}, graph::Grid{.y = 2, .pipe = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    const auto run_of = [&](std::int64_t pipe, const char* policy) {
      graph::Grid of = grid;
      of.pipe = pipe;
      testing::GridRun run = testing::pipeline_run(ops::Family::llama, of, policy);
      run.step.zero1 = grid.data > 1;
      run.step.recompute_blocks = true;
      run.step.reshard_after_forward = grid.z > 1;
      run.step.document_mask = true;
      run.steps = 3;
      return run;
    };
    const testing::GridOutcome expected = testing::run_grid(run_of(1, "program"));
    for (const char* policy : {"1f1b", "zb-v"}) {
      SCOPED_TRACE(policy);
      testing::expect_equal(testing::run_grid(run_of(2, policy)), expected);
    }
  }
}

// Norms of queries and keys are summed over all ranks of a stage, and of no other.
TEST(PipelineFlags, NormsOfHeadsAreSummedWithinTheirStage) {
  const auto run_of = [&](std::int64_t pipe, const char* policy) {
    testing::GridRun run = testing::pipeline_run(ops::Family::llama, {.x = 2, .data = 2, .pipe = pipe}, policy);
    const ops::ModelConfig sizes = run.model;
    run.model = testing::tiny_model(testing::ModelKind::qwen3);
    run.model.layers = 2, run.model.hidden = 24, run.model.heads = 6, run.model.kv_heads = 2, run.model.ffn = 28;
    run.model.vocab = sizes.vocab, run.model.context = sizes.context, run.model.tied = false;
    if (pipe > 1) run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, pipe);
    return run;
  };
  testing::expect_equal(testing::run_grid(run_of(2, "zb-h1")), testing::run_grid(run_of(1, "program")));
}

// Gradients go back through frozen stages to the adapters of the first one.
TEST(PipelineFlags, AdaptersTrainOverFrozenStages) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    const auto run_of = [&](std::int64_t pipe, const char* policy) {
      testing::GridRun run = testing::pipeline_run(family, {.z = 2, .pipe = pipe}, policy);
      run.model.lora = {.rank = 3, .alpha = 7.5F};
      run.step.eps = 1e-4F;
      return run;
    };
    const testing::GridOutcome expected = testing::run_grid(run_of(1, "program"));
    for (const char* policy : {"1f1b", "dualpipe-v"}) {
      SCOPED_TRACE(policy);
      testing::expect_equal(testing::run_grid(run_of(2, policy)), expected);
    }
  }
}

// A tied embedding's gradients are scattered over z in each micro-batch, and its two stages' sums are added at the end.
TEST(PipelineFlags, EachMicroBatchsGradientsMayBeScattered) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    const auto run_of = [&](std::int64_t pipe, const char* policy) {
      testing::GridRun run = testing::pipeline_run(family, {.z = 2, .pipe = pipe}, policy);
      run.step.gradient_reduction = ops::GradientReduction::micro_batch;
      return run;
    };
    const testing::GridOutcome serial = testing::run_grid(run_of(1, "program"));
    const testing::GridOutcome staged = testing::run_grid(run_of(2, "1f1b"));
    testing::expect_equal(testing::run_grid(run_of(2, "zb-h1")), staged);
    testing::expect_like_one_rank(staged, serial);
  }
}

// The first and the last stage add the embedding's gradients and keep equal copies, on one rank or on two.
TEST(PipelineFlags, ATiedEmbeddingIsOneParameter) {
  const graph::Grid grid{.z = 2, .data = 2, .pipe = 2};
  graph::Grid without = grid;
  without.pipe = 1;
  const auto run_of = [&](const graph::Grid& of, const char* policy) {
    testing::GridRun run = testing::pipeline_run(ops::Family::gpt2, of, policy);
    run.step.zero1 = true;
    return run;
  };
  const testing::GridOutcome serial = testing::run_grid(run_of(without, "program"));
  const testing::GridOutcome apart = testing::run_grid(run_of(grid, "1f1b"));
  const testing::GridOutcome together = testing::run_grid(run_of(grid, "dualpipe-v"));
  testing::expect_equal(together, apart);
  testing::expect_like_one_rank(apart, serial);
}

}  // namespace
}  // namespace weft::train
