// Pipelines train like one rank, and all schedules of one grid give the same bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/ops/tiny_model.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/train/grid_run.h"

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
                           return fmt::format("{}_{}", to_string(std::get<0>(info.param)),
                                              testing::name_of(std::get<1>(info.param)));
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
  const auto run_by = [&](const std::string& policy) {
    testing::GridRun run = testing::pipeline_run(family(), grid(), policy);
    run.steps = 2;
    return run;
  };
  const testing::GridOutcome expected = testing::run_grid(run_by("program"));
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  for (const std::string& policy : testing::with_short_searches(policy::pipeline_policy_names())) {
    SCOPED_TRACE(policy);
    const testing::GridRun run = run_by(policy);
    // Two chunks a rank need two layers.
    if (run.step.pipeline.stages() > run.model.layers) continue;
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

// With stages as without. Only a tied embedding's gradients are added in another order.
TEST(PipelineFlags, TrainWithAndWithoutStages) {
  struct Case {
    const char* what;
    ops::Family family;
    graph::Grid grid;
    void (*change)(testing::GridRun&);
    std::vector<std::string> policies;
    bool same_bits = true;  // as without stages; else only among the policies
  };
  // Sums over data ranks, sharded optimizer state, recomputed layers, gathered weights that are dropped, attention
  // within documents.
  const auto keep_and_send = [](testing::GridRun& run) {
    run.step.zero1 = run.step.grid.data > 1;
    run.step.recompute_blocks = true;
    run.step.reshard_after_forward = run.step.grid.z > 1;
    run.step.document_mask = true;
  };
  const auto norms_of_heads = [](testing::GridRun& run) {
    run.model = testing::tiny_model(
        testing::ModelKind::qwen3,
        {.layers = 2, .hidden = 24, .heads = 6, .kv_heads = 2, .ffn = 28, .vocab = 29, .context = 8});
    if (run.step.grid.pipe > 1) run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, 2);
  };
  const auto adapters = [](testing::GridRun& run) {
    run.model.lora = {.rank = 3, .alpha = 7.5F};
    run.step.eps = 1e-4F;
  };
  const auto scatter = [](testing::GridRun& run) { run.step.gradient_reduction = ops::GradientReduction::micro_batch; };
  using enum ops::Family;
  const std::vector<Case> cases = {{"keeping and sending", llama, {.z = 2, .data = 2}, keep_and_send, {"1f1b", "zb-v"}},
                                   {"keeping and sending", llama, {.y = 2}, keep_and_send, {"1f1b", "zb-v"}},
                                   // They are summed over all ranks of a stage, and of no other.
                                   {"norms of queries and keys", llama, {.x = 2, .data = 2}, norms_of_heads, {"zb-h1"}},
                                   // Gradients go back through frozen stages to the adapters of the first one.
                                   {"adapters", gpt2, {.z = 2}, adapters, {"1f1b", "dualpipe-v"}},
                                   {"adapters", llama, {.z = 2}, adapters, {"1f1b", "dualpipe-v"}},
                                   // A tied embedding's gradients are scattered over z in each micro-batch, and its two
                                   // stages' sums are added at the end.
                                   {"scattered micro-batches", gpt2, {.z = 2}, scatter, {"1f1b", "zb-h1"}, false},
                                   {"scattered micro-batches", llama, {.z = 2}, scatter, {"1f1b", "zb-h1", "zb-v"}},
                                   // The first and the last stage keep equal copies of it, on two ranks or on one.
                                   {"a tied embedding",
                                    gpt2,
                                    {.z = 2, .data = 2},
                                    [](testing::GridRun& run) { run.step.zero1 = true; },
                                    {"1f1b", "dualpipe-v"},
                                    false}};
  for (const Case& each : cases) {
    SCOPED_TRACE(fmt::format("{}: {} on {}", each.what, to_string(each.family), graph::to_string(each.grid)));
    const auto outcome_of = [&](std::int64_t pipe, const std::string& policy) {
      graph::Grid grid = each.grid;
      grid.pipe = pipe;
      testing::GridRun run = testing::pipeline_run(each.family, grid, policy);
      each.change(run);
      return testing::run_grid(run);
    };
    const testing::GridOutcome without = outcome_of(1, "program"), staged = outcome_of(2, each.policies.front());
    testing::expect_like_one_rank(staged, without);
    if (each.same_bits) testing::expect_equal(staged, without);
    for (std::size_t i = 1; i < each.policies.size(); ++i) {
      testing::expect_equal(outcome_of(2, each.policies[i]), staged);
    }
  }
}

}  // namespace
}  // namespace weft::train
