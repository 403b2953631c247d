// The values that the loop writes into a program's state, compared with the formulas.
#include "train/step/training_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "ops/lower.h"
#include "tests/ops/tiny_model.h"
#include "train/step/initial_weights.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

RunConfig config_of(const graph::Grid& grid, float dropout = 0.1F) {
  RunConfig config;
  config.model_name = "custom";
  config.model = testing::tiny_model(ops::Family::gpt2);
  config.grid = grid;
  config.ranks = grid.ranks();
  config.global_batch = 12 * grid.batch_ranks();
  config.micro_batch = 3;
  config.dropout = dropout;
  config.steps = 100;
  config.warmup = 10;
  config.lr = 0.02;
  config.min_lr = 0.002;
  config.beta1 = 0.9F;
  config.beta2 = 0.95F;
  config.seed = 1234567890123;
  config.threads = 1;
  config.run_dir = "unused";
  fill_in(config, 0);
  return config;
}

/// The state of one rank's training graph.
struct TrainingState {
  explicit TrainingState(const RunConfig& config)
      : graph(ops::lower_train(config.model, step_config(config))),
        state(std::vector<const graph::Graph*>{graph.get()}) {}
  std::shared_ptr<const graph::Graph> graph;
  execute::State state;
};

std::vector<std::int64_t> integers(const execute::State& state, const char* name) {
  const auto values = state.get<std::int64_t>(name);
  return {values.begin(), values.end()};
}

TEST(TrainingState, ScalarsFollowTheFormulas) {
  const RunConfig config = config_of({});
  const TrainingState training(config);
  for (const std::int64_t step : {0, 4, 9, 10, 55, 99}) {
    write_scalars(training.state, config, step);
    const auto scalars = training.state.get<float>(ops::names::kScalars);
    ASSERT_EQ(scalars.size(), 4U);
    const double decayed = 0.002 + 0.009 * (1 + std::cos(std::numbers::pi * static_cast<double>(step - 10) / 90));
    const double lr = step < 10 ? 0.02 * static_cast<double>(step + 1) / 10 : decayed;
    EXPECT_FLOAT_EQ(scalars[0], static_cast<float>(lr)) << step;
    const auto t = static_cast<double>(step + 1);
    EXPECT_FLOAT_EQ(scalars[1], static_cast<float>(1 / (1 - std::pow(0.9, t)))) << step;
    EXPECT_FLOAT_EQ(scalars[2], static_cast<float>(1 / (1 - std::pow(0.95, t)))) << step;
    EXPECT_FLOAT_EQ(scalars[3], 1.0F / (12 * 8)) << "a mean over all tokens of the step";
    EXPECT_EQ(integers(training.state, ops::names::kRandom)[1], step);
  }
  EXPECT_FLOAT_EQ(training.state.get<float>(ops::names::kScalars)[3], 1.0F / 96);
}

TEST(TrainingState, TheScaleCountsTheTokensOfAllRanks) {
  const RunConfig config = config_of({1, 1, 2, 3});
  const TrainingState training(config);
  write_scalars(training.state, config, 0);
  EXPECT_FLOAT_EQ(training.state.get<float>(ops::names::kScalars)[3], 1.0F / (12 * 6 * 8));
}

TEST(TrainingState, TheScaleCountsTheTargetsThatAreNotDropped) {
  const RunConfig config = config_of({1, 1, 2, 3});
  const TrainingState training(config);
  write_scalars(training.state, config, 0, 77);
  EXPECT_FLOAT_EQ(training.state.get<float>(ops::names::kScalars)[3], 1.0F / 77);
  write_scalars(training.state, config, 0, 0);
  EXPECT_FLOAT_EQ(training.state.get<float>(ops::names::kScalars)[3], 1.0F);
}

// Masks are numbered by the row of the global batch: ranks that read other sequences draw other masks, ranks that share
// sequences the same masks.
TEST(TrainingState, ConstantsNumberTheRowsOfTheBatch) {
  const graph::Grid grid{2, 1, 2, 3};
  const RunConfig config = config_of(grid);
  const TrainingState training(config);
  std::multiset<std::int64_t> bases;
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    const graph::Coordinates at = graph::coordinates_of(grid, rank);
    write_scalars(training.state, config, 7);
    write_constants(training.state, config, at);
    const std::vector<std::int64_t> random = integers(training.state, ops::names::kRandom);
    EXPECT_EQ(random[0], 1234567890123);
    EXPECT_EQ(random[1], 7) << "the step is left as it was";
    EXPECT_EQ(random[2], (at.data * 2 + at.z) * 12 * 8);  // a rank has 12 sequences of 8 tokens
    bases.insert(random[2]);
  }
  for (std::int64_t part = 0; part < 6; ++part) EXPECT_EQ(bases.count(part * 96), 2U) << part;
}

TEST(TrainingState, CoordinatesAreTheRanks) {
  const graph::Grid grid{2, 2, 2, 2};
  const TrainingState training(config_of(grid));
  // Rows (x, y), then the numbers that are 0 on one of the ranks that hold equal values: (y, data), (y, z, data), (x,
  // z, data), (y, z), (x, z), the first of each counting fastest.
  set_coordinates(training.state, grid, {1, 0, 1, 0});
  EXPECT_EQ(integers(training.state, ops::names::kCoordinates),
            (std::vector<std::int64_t>{1, 0, 1, 0, 1, 0, 2, 3, 2, 3}));
  set_coordinates(training.state, grid, {0, 1, 0, 1});
  EXPECT_EQ(integers(training.state, ops::names::kCoordinates),
            (std::vector<std::int64_t>{0, 1, 0, 1, 2, 3, 5, 4, 1, 0}));
  set_coordinates(training.state, grid, {0, 0, 0, 0});
  EXPECT_EQ(integers(training.state, ops::names::kCoordinates), std::vector<std::int64_t>(10, 0));
  // Each number is 0 on as many ranks as there are blocks of its values.
  std::vector<int> zeros(10, 0);
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    set_coordinates(training.state, grid, graph::coordinates_of(grid, rank));
    const std::vector<std::int64_t> values = integers(training.state, ops::names::kCoordinates);
    for (std::size_t i = 0; i < values.size(); ++i) zeros[i] += values[i] == 0 ? 1 : 0;
  }
  EXPECT_EQ(zeros, (std::vector<int>{8, 8, 8, 8, 4, 4, 2, 2, 4, 4}));
}

// Graphs that need neither coordinates nor masks have no such state, and nothing is written.
TEST(TrainingState, WritesOnlyWhatTheGraphHas) {
  const RunConfig config = config_of({}, 0);
  const TrainingState training(config);
  EXPECT_FALSE(training.state.contains(ops::names::kCoordinates));
  EXPECT_FALSE(training.state.contains(ops::names::kRandom));
  write_constants(training.state, config, {});
  write_scalars(training.state, config, 3);
  EXPECT_GT(training.state.get<float>(ops::names::kScalars)[0], 0);
}

TEST(TrainingState, ArraysLieInTheStateAndBeginWithTheSeedsWeights) {
  RunConfig config = config_of({1, 1, 2, 2});
  config.dtype = DType::bf16;
  config.zero1 = true;
  const TrainingState training(config);
  const auto specs = ops::model_parameters(config.model);
  const graph::Coordinates at{0, 0, 1, 1};
  const auto shards = ops::shard_parameters(config.model, specs, config.grid, at, true);
  const auto arrays = training_arrays(training.state, shards, config.dtype);
  ASSERT_EQ(arrays.size(), specs.size());
  initialize_parameters(arrays, 99);
  bool any = false;
  for (const MutableParameterState& array : arrays) {
    const std::string& name = array.spec->name;
    EXPECT_EQ(array.data, training.state.data(name));
    EXPECT_EQ(array.m, training.state.get<float>(name + ".m").data());
    EXPECT_EQ(array.v, training.state.get<float>(name + ".v").data());
    ASSERT_NE(array.master, nullptr) << name;
    EXPECT_EQ(array.master, training.state.get<float>(name + ".master").data());
    std::vector<bf16> data(static_cast<std::size_t>(kept_elements(array)));
    std::vector<float> master(static_cast<std::size_t>(updated_elements(array)));
    initialize_parameter(*array.shard, 99, DType::bf16, data.data(), master.data());
    const auto* found = static_cast<const bf16*>(array.data);
    for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(found[i].bits, data[i].bits) << name << i;
    for (std::size_t i = 0; i < master.size(); ++i) {
      ASSERT_EQ(array.master[i], master[i]) << name << i;
      any = any || master[i] != 0;
    }
  }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace weft::train
