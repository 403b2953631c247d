// Sequence parallelism: a grid trains like one rank with it, and a layer keeps as many bytes as the formula of
// docs/grids.md says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/sharding.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/ops/tiny_model.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/train/grid_run.h"

namespace weft::train {
namespace {

// Where y, x or both cut rows: alone, by two to four, and with z, data and stages.
const std::vector<graph::Grid>& grids_that_cut_rows() {
  static const std::vector<graph::Grid> all = {{.y = 2},
                                               {.y = 3},
                                               {.y = 4},
                                               {.x = 2},
                                               {.x = 3},
                                               {.x = 2, .y = 2},
                                               {.x = 2, .y = 3},
                                               {.y = 2, .z = 2},
                                               {.x = 2, .z = 2},
                                               {.y = 2, .data = 2},
                                               {.x = 2, .y = 2, .z = 2},
                                               {.y = 2, .pipe = 2},
                                               {.x = 2, .y = 2, .pipe = 2}};
  return all;
}

// Two micro-batches of 24 sequences in all, with dropout, clipping and biases.
testing::GridRun run_on(const ops::ModelConfig& model, const graph::Grid& grid) {
  testing::GridRun run{.model = model,
                       .step = {.micro_batch = 24 / (2 * grid.batch_ranks()),
                                .seq_len = 6,
                                .micro_batches = 2,
                                .grid = grid,
                                .pipeline = {},
                                .sequence_parallel = true,
                                .dropout = 0.1F,
                                .clip = 0.5F},
                       .steps = 6};
  if (grid.pipe > 1) {
    run.policy = "1f1b";
    run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, grid.pipe);
  }
  return run;
}

testing::GridRun plain(testing::GridRun run) {
  run.step.sequence_parallel = false;
  return run;
}

constexpr testing::ModelSizes kSizes = {
    .layers = 2, .hidden = 48, .heads = 12, .kv_heads = 12, .ffn = 60, .vocab = 61, .context = 12};

testing::GridOutcome first_gradients(testing::GridRun run) {
  run.steps = 1;
  run.step.beta1 = 0;  // the first moment is the gradient
  run.step.clip = 0;
  return testing::run_grid(run);
}

class SequenceParallel : public ::testing::TestWithParam<ops::Family> {
 protected:
  static ops::ModelConfig model() { return testing::of_family(GetParam(), kSizes); }
};

INSTANTIATE_TEST_SUITE_P(Families, SequenceParallel, testing::kFamilies, testing::kNameOfParam);

TEST_P(SequenceParallel, ThirteenGridsTrainLikeOneRank) {
  const testing::GridOutcome expected = testing::run_grid(plain(run_on(model(), {})));
  for (const graph::Grid& grid : grids_that_cut_rows()) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = run_on(model(), grid);
    run.step.recompute_blocks = grid.ranks() >= 4;  // each axis is in one with others
    run.step.zero1 = grid.data > 1;
    run.step.reshard_after_forward = grid.z > 1;
    const testing::GridOutcome found = testing::run_grid(run);
    testing::expect_like_one_rank(found, expected);
    // Sums of activations have the same terms in the same order, and rows of norms are whole; gradients of norms alone
    // are added in another order.
    run.steps = grid.y == 1 ? run.steps : 1;
    const testing::GridOutcome without = testing::run_grid(plain(run));
    EXPECT_EQ(found.losses.front(), without.losses.front());
    if (grid.y == 1) testing::expect_equal(found, without);
  }
}

// A norm's gradient counts each row once: neither a part alone nor a part of every rank's whole rows.
TEST_P(SequenceParallel, GradientsOfTheFirstStep) {
  const testing::GridOutcome expected = first_gradients(plain(run_on(model(), {})));
  for (const graph::Grid& grid : grids_that_cut_rows()) {
    const testing::GridOutcome found = first_gradients(run_on(model(), grid));
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    const auto [difference, name] = testing::worst_difference(found, expected, ".m");
    EXPECT_LE(difference, 1e-5) << name << " on " << graph::to_string(grid);
  }
}

TEST_P(SequenceParallel, PoliciesAndRewritesChangeNoBit) {
  for (const graph::Grid& grid : {graph::Grid{.y = 2}, graph::Grid{.x = 2, .y = 2}, graph::Grid{.y = 2, .z = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = run_on(model(), grid);
    run.steps = 3;
    const testing::GridOutcome expected = testing::run_grid(run);
    testing::expect_equal_under_policies(run, expected);
    testing::GridRun again = run;
    again.step.recompute_blocks = true;
    testing::expect_equal(testing::run_grid(again), expected);
    run.rewrites = "recompute;reshard;bucket=2KB;split-collective=1KB;ar-to-rs-ag";
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

TEST_P(SequenceParallel, SchedulesOfStagesChangeNoBit) {
  testing::GridRun run = run_on(model(), {.y = 2, .pipe = 2});
  run.model.layers = 4;
  run.step.micro_batch = 3;
  run.step.micro_batches = 4;  // two for each rank, as dualpipe-v wants
  run.steps = 2;
  const auto outcome_under = [&](const std::string& policy) {
    run.policy = policy;
    run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, 2, policy::make_policy(policy)->chunks());
    return testing::run_grid(run);
  };
  const testing::GridOutcome expected = outcome_under("program");
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  for (const std::string& policy : testing::with_short_searches(policy::pipeline_policy_names())) {
    SCOPED_TRACE(policy);
    testing::expect_equal(outcome_under(policy), expected);
  }
}

TEST_P(SequenceParallel, InBf16) {
  const auto narrow = [](testing::GridRun run) {
    run.step.dtype = run.step.reduce_dtype = DType::bf16;
    return testing::run_grid(run);
  };
  const testing::GridOutcome expected = narrow(plain(run_on(model(), {})));
  for (const graph::Grid& grid : {graph::Grid{.y = 3}, graph::Grid{.x = 2, .y = 2}}) {
    const testing::GridOutcome found = narrow(run_on(model(), grid));
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    testing::expect_near(found.losses, expected.losses, 2e-2, "loss");
    testing::expect_near(found.norms, expected.norms, 2e-2, "gradient norm");
  }
}

// Adapters beside frozen weights, whose norms have no gradient.
TEST_P(SequenceParallel, AdaptersTrainLikeOnOneRank) {
  const auto adapted = [](const graph::Grid& grid) {
    testing::GridRun run = run_on(model(), grid);
    run.model.lora = {.rank = 3, .alpha = 7.5F};
    run.step.eps = 1e-4F;
    return run;
  };
  const testing::GridOutcome expected = testing::run_grid(plain(adapted({})));
  for (const graph::Grid& grid : {graph::Grid{.y = 2}, graph::Grid{.x = 2, .y = 2}, graph::Grid{.y = 2, .pipe = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::expect_like_one_rank(testing::run_grid(adapted(grid)), expected);
  }
}

// The other model types: norms after branches and around them, norms of queries and keys, windows, factors; with one
// key head that all ranks of x share, attention stays within documents.
class SequenceParallelKinds : public ::testing::TestWithParam<testing::ModelKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, SequenceParallelKinds,
                         ::testing::Values(testing::ModelKind::llama_biased, testing::ModelKind::mistral,
                                           testing::ModelKind::qwen2, testing::ModelKind::qwen3,
                                           testing::ModelKind::ministral, testing::ModelKind::phi3,
                                           testing::ModelKind::smollm3, testing::ModelKind::granite,
                                           testing::ModelKind::olmo2, testing::ModelKind::olmo3,
                                           testing::ModelKind::gemma, testing::ModelKind::gemma3_text,
                                           testing::ModelKind::mixtral, testing::ModelKind::qwen3_moe),
                         testing::kNameOfParam);

TEST_P(SequenceParallelKinds, TrainLikeOneRank) {
  for (const std::int64_t kv_heads : {12, 1}) {
    const auto run_of = [&](const graph::Grid& grid) {
      testing::ModelSizes sizes = kSizes;
      sizes.kv_heads = kv_heads;
      sizes.ffn = 36;
      testing::GridRun run = run_on(testing::tiny_model(GetParam(), sizes), grid);
      run.model.tied = kv_heads == 1;
      run.step.document_mask = kv_heads == 1;
      run.steps = 4;
      // A norm that follows leaves some biases gradients near zero, whose rounding AdamW's first steps would magnify.
      if (GetParam() == testing::ModelKind::olmo2) run.step.eps = 1e-4F;
      return run;
    };
    const testing::GridOutcome expected = testing::run_grid(testing::recording(plain(run_of({}))));
    const testing::GridOutcome gradients = first_gradients(testing::recording(plain(run_of({}))));
    for (const graph::Grid& grid : grids_that_cut_rows()) {
      if (kv_heads % grid.y != 0 || grid.ranks() > 4) continue;
      SCOPED_TRACE(fmt::format("{} KV heads, {}", kv_heads, graph::to_string(grid)));
      testing::GridRun run = testing::replaying(expected, run_of(grid));
      run.step.recompute_blocks = grid.ranks() == 4;
      testing::expect_like_one_rank(testing::run_grid(run), expected, static_cast<std::size_t>(run.model.query_cols()));
      const testing::GridOutcome found = first_gradients(testing::replaying(gradients, run_of(grid)));
      const auto [difference, name] =
          testing::worst_difference(found, gradients, ".m", static_cast<std::size_t>(run.model.query_cols()));
      EXPECT_LE(difference, 1e-5) << name;
    }
  }
}

/// Bytes of activations at their peak that each further layer takes.
double bytes_of_a_layer(ops::ModelConfig model, const ops::StepConfig& step) {
  const auto peak = [&](std::int64_t layers) {
    model.layers = layers;
    const plan::Plan plan =
        policy::compile_plan(ops::lower_train(model, step), *policy::make_policy("program"), {}, {});
    return static_cast<double>(plan::memory_report(plan).of(graph::Role::activation));
  };
  return (peak(6) - peak(4)) / 2;
}

/// The formula of docs/grids.md: inputs and results of two norms, queries, keys and values, attention's result, and the
/// MLP's two activations, in 16 bits, divided by all ranks of x and y; the logarithm of a softmax's sum for each head;
/// and the numbers that norms keep of a row, which y divides alone.
double formula(const ops::ModelConfig& model, const ops::StepConfig& step) {
  const auto tokens = static_cast<double>(step.micro_batch * step.seq_len), hidden = static_cast<double>(model.hidden),
             ffn = static_cast<double>(model.ffn), heads = static_cast<double>(model.heads),
             q = static_cast<double>(model.query_cols()), k = static_cast<double>(model.key_cols()),
             t = static_cast<double>(step.grid.x * step.grid.y), y = static_cast<double>(step.grid.y);
  const double mlp = model.parts().gated() ? 3 * ffn : 2 * ffn, of_norms = model.parts().centered() ? 4 : 2;
  if (step.recompute_blocks) return 2 * tokens * hidden / t;
  return tokens * (2 * (4 * hidden + 2 * q + 2 * k + mlp) / t + 4 * heads / t + 4 * of_norms / y);
}

TEST(SequenceParallelMemory, ALayerKeepsWhatTheFormulaSays) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    const ops::ModelConfig model = testing::of_family(
        family, {.hidden = 1024, .heads = 16, .kv_heads = 8, .ffn = 4096, .vocab = 512, .context = 1024});
    for (const graph::Grid& grid :
         {graph::Grid{.y = 2}, graph::Grid{.y = 8}, graph::Grid{.x = 4}, graph::Grid{.x = 2, .y = 4}}) {
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} on {}{}", ops::to_string(family), graph::to_string(grid), recompute ? ", recomputed" : ""));
        const ops::StepConfig step{.micro_batch = 2,
                                   .seq_len = 1024,
                                   .grid = grid,
                                   .pipeline = {},
                                   .dtype = DType::bf16,
                                   .recompute_blocks = recompute,
                                   .sequence_parallel = true};
        const double found = bytes_of_a_layer(model, step);
        EXPECT_NEAR(found / formula(model, step), 1, 0.02);
        // Korthikanti et al.: s·b·h·34/t without the matrix of attention, of which 2 are masks of dropout.
        const double t = static_cast<double>(grid.x * grid.y);
        if (family == ops::Family::gpt2 && !recompute) {
          EXPECT_NEAR(found / (2048.0 * 1024 * (34 - 2) / t), 1, 0.02);
        }
      }
    }
  }
}

// Tensor parallelism alone keeps s·b·h·(10 + 24/t), of which 2 are masks: what lies between products on every rank.
TEST(SequenceParallelMemory, WithoutItEveryRankKeepsWhatLiesBetweenProducts) {
  const ops::ModelConfig model =
      testing::of_family(ops::Family::gpt2, {.hidden = 1024, .heads = 16, .ffn = 4096, .vocab = 512, .context = 1024});
  const ops::StepConfig step{.micro_batch = 2, .seq_len = 1024, .grid = {.y = 4}, .pipeline = {}, .dtype = DType::bf16};
  EXPECT_NEAR(bytes_of_a_layer(model, step) / (2048.0 * 1024 * (10 - 2 + 24.0 / 4)), 1, 0.02);
}

}  // namespace
}  // namespace weft::train
