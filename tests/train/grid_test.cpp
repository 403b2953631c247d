// The bar of 4D parallelism: every grid trains like one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/train/grid_run.h"

namespace weft {
namespace {

ModelConfig grid_model(Family family) {
  ModelConfig model;
  model.family = family;
  model.layers = 2;
  model.hidden = family == Family::llama ? 96 : 48;
  model.heads = family == Family::llama ? 24 : 12;
  model.kv_heads = 12;
  model.ffn = 60;
  model.vocab = 61;  // no axis divides it
  model.context = 12;
  model.tied = family == Family::gpt2;
  return model;
}

Grid grid_of(std::int64_t x, std::int64_t y, std::int64_t z, std::int64_t data) {
  Grid grid;
  grid.x = x, grid.y = y, grid.z = z, grid.data = data;
  return grid;
}

const std::vector<Grid>& grids() {
  static const std::vector<Grid> all = {
      grid_of(2, 1, 1, 1), grid_of(1, 2, 1, 1), grid_of(1, 1, 2, 1), grid_of(1, 1, 1, 2), grid_of(2, 2, 1, 1),
      grid_of(2, 1, 2, 1), grid_of(1, 2, 2, 1), grid_of(2, 2, 2, 1), grid_of(1, 1, 2, 2), grid_of(2, 2, 1, 2),
      grid_of(3, 1, 1, 1), grid_of(1, 3, 1, 1), grid_of(1, 1, 3, 1)};
  return all;
}

// A step of two micro-batches of 24 sequences in all, on any of the grids.
GridRun grid_run(Family family, const Grid& grid) {
  GridRun run;
  run.model = grid_model(family);
  run.step.grid = grid;
  run.step.seq_len = 6;
  run.step.micro_batches = 2;
  run.step.micro_batch = 24 / (2 * grid.batch_ranks());
  run.step.dropout = 0.1F;
  run.step.clip = 0.5F;
  return run;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                 const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(std::abs(found[i] - expected[i]), tolerance * std::abs(expected[i])) << what << " of step " << i;
  }
}

class GridBar : public ::testing::TestWithParam<std::tuple<Family, Grid>> {
 protected:
  Family family() const { return std::get<0>(GetParam()); }
  Grid grid() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(
    Grids, GridBar, ::testing::Combine(::testing::Values(Family::gpt2, Family::llama), ::testing::ValuesIn(grids())),
    [](const auto& info) {
      const Grid& grid = std::get<1>(info.param);
      return fmt::format("{}_x{}y{}z{}data{}", to_string(std::get<0>(info.param)), grid.x, grid.y, grid.z, grid.data);
    });

TEST_P(GridBar, GradientsOfTheFirstStep) {
  GridRun run = grid_run(family(), grid());
  run.steps = 1;
  run.step.beta1 = 0;  // the first moment is the gradient
  run.step.clip = 0;
  GridRun serial = grid_run(family(), {});
  serial.steps = 1;
  serial.step.beta1 = 0;
  serial.step.clip = 0;
  const GridOutcome expected = run_grid(serial), found = run_grid(run);
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  const auto [difference, name] = worst_difference(found, expected, ".m");
  EXPECT_LE(difference, 1e-5) << name;
}

TEST_P(GridBar, TwentySteps) {
  const GridOutcome expected = run_grid(grid_run(family(), {}));
  for (const bool recompute : {false, true}) {
    GridRun run = grid_run(family(), grid());
    run.step.recompute_blocks = recompute;
    const GridOutcome found = run_grid(run);
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    expect_near(found.losses, expected.losses, 1e-6, "loss");
    expect_near(found.norms, expected.norms, 1e-5, "gradient norm");
    const auto [difference, name] = worst_difference(found, expected, "");
    EXPECT_LE(difference, 1e-5) << name << (recompute ? ", recomputed" : "");
  }
}

// Two KV heads on up to six ranks of x·y: ranks of x share them.
TEST(GridSharedHeads, TrainLikeOneRank) {
  const auto shared = [](const Grid& grid) {
    GridRun run = grid_run(Family::llama, grid);
    run.model.heads = 12;
    run.model.kv_heads = 2;
    run.steps = 4;
    return run;
  };
  const GridOutcome expected = run_grid(shared({}));
  for (const Grid& grid : {grid_of(4, 1, 1, 1), grid_of(2, 2, 1, 1), grid_of(6, 1, 1, 1), grid_of(2, 2, 2, 1)}) {
    SCOPED_TRACE(to_string(grid));
    ASSERT_TRUE(local_heads(shared(grid).model, grid).kv_shared);
    const GridOutcome found = run_grid(shared(grid));
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    expect_near(found.losses, expected.losses, 1e-6, "loss");
    const auto [difference, name] = worst_difference(found, expected, "");
    EXPECT_LE(difference, 1e-5) << name;
  }
}

}  // namespace
}  // namespace weft
