// Adapters on grids: every grid trains them like one rank, and nothing else changes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"
#include "tests/train/reference_transformer.h"

namespace weft::train {
namespace {

// A model whose matrices every grid can cut, with adapters of all layers. `kv_heads` below 12: llama, whose ranks of x
// share heads.
testing::GridRun lora_run(ops::Family family, const graph::Grid& grid, std::int64_t kv_heads = 12) {
  testing::GridRun run{
      .model = testing::of_family(
          family, {.layers = 2, .hidden = 24, .heads = 12, .kv_heads = kv_heads, .ffn = 36, .vocab = 23, .context = 8}),
      .step = {.micro_batch = 24 / (2 * grid.batch_ranks()),
               .seq_len = 5,
               .micro_batches = 2,
               .grid = grid,
               .pipeline = {},
               .dropout = 0.1F},
      .steps = 5,
      .lr = 1e-2,
      .warmup = 1};
  run.model.lora = {.rank = 3, .alpha = 7.5F};
  run.step.clip = 0.05F;  // clips, so that the norm of the adapters' gradients counts
  run.step.eps = 1e-4F;   // B begins at zero, and without it would consist of the signs of gradients, the smallest too
  return run;
}

void expect_like(const testing::GridRun& run, const testing::GridOutcome& expected) {
  const testing::GridOutcome found = testing::run_grid(run);
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  testing::expect_near(found.losses, expected.losses, 1e-5, "loss");
  testing::expect_near(found.norms, expected.norms, 1e-5, "gradient norm");
  for (const auto& [name, values] : expected.arrays) {
    if (name.find("lora") == std::string::npos) {
      EXPECT_EQ(found.arrays.at(name), values) << name;
    } else {
      EXPECT_LE(testing::relative_difference(found.arrays.at(name), values), 1e-5) << name;
    }
  }
}

class LoraGrids : public ::testing::TestWithParam<ops::Family> {};

INSTANTIATE_TEST_SUITE_P(Families, LoraGrids, testing::kFamilies, testing::kNameOfParam);

TEST_P(LoraGrids, TrainLikeOneRank) {
  const testing::GridOutcome expected = testing::run_grid(lora_run(GetParam(), {}));
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const graph::Grid& grid : testing::thirteen_grids()) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = lora_run(GetParam(), grid);
    run.step.recompute_blocks = grid.z > 1;
    run.step.zero1 = grid.data > 1;
    run.step.reshard_after_forward = grid.z > 1;
    expect_like(run, expected);
  }
}

// Where ranks of x share heads of keys and values, these come out of another output of the layer than the queries.
TEST(LoraGridParts, SharedHeadsAndSomeLayersOnly) {
  const std::map<std::string, ops::LoraConfig> choices = {{"all", {.rank = 3}},
                                                          {"qkv", {.rank = 2, .out = false, .mlp = false}},
                                                          {"out", {.rank = 2, .qkv = false, .mlp = false}},
                                                          {"mlp", {.rank = 2, .qkv = false, .out = false}}};
  for (const auto& [name, lora] : choices) {
    SCOPED_TRACE(name);
    const auto run_on = [&lora = lora](const graph::Grid& grid) {
      testing::GridRun run = lora_run(ops::Family::llama, grid, 2);
      run.model.lora = lora;
      return run;
    };
    const testing::GridOutcome expected = testing::run_grid(run_on({}));
    ASSERT_EQ(expected.exit_code, 0) << expected.errors;
    for (const graph::Grid& grid : {graph::Grid{4, 1, 1, 1}, graph::Grid{3, 2, 1, 1}}) {
      testing::GridRun run = run_on(grid);
      SCOPED_TRACE(graph::to_string(grid));
      expect_like(run, expected);
    }
  }
}

// The base is neither changed nor kept in fp32 beside bf16, and the optimizer keeps nothing of it.
TEST(LoraGridParts, OnlyAdaptersAreTrained) {
  testing::GridRun run = lora_run(ops::Family::gpt2, graph::Grid{1, 1, 2, 1});
  const auto start = [&](const std::string& name) {
    for (const ops::ParameterSpec& spec : ops::model_parameters(run.model)) {
      if (spec.name == name) return testing::initial_values(spec, run.seed);
    }
    throw std::logic_error(name);
  };
  const testing::GridOutcome outcome = testing::run_grid(run);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const auto& [name, values] : outcome.arrays) {
    if (name.ends_with(".m")) {
      EXPECT_NE(name.find(".lora_"), std::string::npos) << name;
    } else if (name.find(".lora_") == std::string::npos) {
      EXPECT_EQ(values, start(name)) << name;
    } else {
      EXPECT_NE(values, start(name)) << name;
    }
  }
}

}  // namespace
}  // namespace weft::train
