// The values that the loop and a start write into a program's state, compared with the formulas.
#include "train/step/training_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "ops/lower.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/model_arrays.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

RunConfig config_on(const graph::Grid& grid, float dropout = 0.1F) {
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
      : graph(ops::lower_train(config.model, step_config(config))), state(std::array{graph}) {}
  std::shared_ptr<const graph::Graph> graph;
  execute::State state;
};

std::vector<std::int64_t> integers(const execute::State& state, const char* name) {
  const auto values = state.get<std::int64_t>(name);
  return {values.begin(), values.end()};
}

TEST(TrainingState, ScalarsFollowTheFormulas) {
  const RunConfig config = config_on({});
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
  const RunConfig config = config_on({1, 1, 2, 3});
  const TrainingState training(config);
  write_scalars(training.state, config, 0);
  EXPECT_FLOAT_EQ(training.state.get<float>(ops::names::kScalars)[3], 1.0F / (12 * 6 * 8));
}

TEST(TrainingState, TheScaleCountsTheTargetsThatAreNotDropped) {
  const RunConfig config = config_on({1, 1, 2, 3});
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
  const RunConfig config = config_on(grid);
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
  const TrainingState training(config_on(grid));
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
  const RunConfig config = config_on({}, 0);
  const TrainingState training(config);
  EXPECT_FALSE(training.state.contains(ops::names::kCoordinates));
  EXPECT_FALSE(training.state.contains(ops::names::kRandom));
  write_constants(training.state, config, {});
  write_scalars(training.state, config, 3);
  EXPECT_GT(training.state.get<float>(ops::names::kScalars)[0], 0);
}

TEST(TrainingState, ArraysLieInTheStateAndBeginWithTheSeedsWeights) {
  RunConfig config = config_on({1, 1, 2, 2});
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
  for (const ParameterState& array : arrays) {
    const std::string& name = array.spec->name;
    EXPECT_EQ(array.data, training.state.data(name));
    EXPECT_EQ(array.m, training.state.get<float>(name + ".m").data());
    EXPECT_EQ(array.v, training.state.get<float>(name + ".v").data());
    ASSERT_NE(array.master, nullptr) << name;
    EXPECT_EQ(array.master, training.state.get<float>(name + ".master").data());
    std::vector<bf16> data(static_cast<std::size_t>(array.kept().size()));
    std::vector<float> master(static_cast<std::size_t>(array.updated().size()));
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

ops::ParameterSpec normal(std::int64_t rows, std::int64_t cols, float std, std::uint32_t site) {
  ops::ParameterSpec spec;
  spec.rows = rows, spec.cols = cols;
  spec.matrix = true;
  spec.init = ops::Init::normal;
  spec.std = std;
  spec.site = site;
  return spec;
}

// Over 100,000 draws: mean, variance, tails and neighbours within five standard errors of a normal's.
TEST(InitialWeights, AreNormal) {
  const std::vector<float> values = testing::initial_values(normal(400, 250, 0.02F, 3), 42);
  const auto n = static_cast<double>(values.size());
  double sum = 0, square = 0, fourth = 0, neighbours = 0, last = 0;
  int beyond_two = 0;
  for (const float value : values) {
    const double z = static_cast<double>(value) / 0.02;
    sum += z;
    square += z * z;
    fourth += z * z * z * z;
    neighbours += z * last;
    last = z;
    beyond_two += std::abs(z) > 2 ? 1 : 0;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(neighbours / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(beyond_two / n, 0.0455, 5 * std::sqrt(0.0455 * 0.9545 / n));
}

TEST(InitialWeights, DependOnSeedSiteAndPlaceOnly) {
  const std::vector<float> matrix = testing::initial_values(normal(3, 5, 1, 7), 42);
  EXPECT_EQ(testing::initial_values(normal(3, 5, 1, 7), 42), matrix);
  EXPECT_NE(testing::initial_values(normal(3, 5, 1, 7), 43), matrix);
  EXPECT_NE(testing::initial_values(normal(3, 5, 1, 8), 42), matrix);
  // The upper half of a seed counts too.
  EXPECT_NE(testing::initial_values(normal(3, 5, 1, 7), 42 + (std::uint64_t{1} << 32)), matrix);
  // A longer parameter begins with the same values: element i's are its own.
  const std::vector<float> longer = testing::initial_values(normal(4, 5, 1, 7), 42);
  EXPECT_EQ(std::vector<float>(longer.begin(), longer.begin() + 15), matrix);
}

// Every shard of a grid holds the values that one rank would draw, and zeros in the padding of the vocabulary.
TEST(InitialWeights, AreTheSameOnAnyGrid) {
  const ops::ModelConfig model = testing::of_family(
      ops::Family::gpt2, {.layers = 1, .hidden = 24, .heads = 4, .ffn = 20, .vocab = 23, .context = 6});
  const std::vector<ops::ParameterSpec> specs = ops::model_parameters(model);
  const graph::Grid grid{2, 2, 3, 2};
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    for (const ops::ParameterShard& shard :
         ops::shard_parameters(model, specs, grid, graph::coordinates_of(grid, rank), true)) {
      const std::vector<float> whole = testing::initial_values(*shard.spec, 42);
      std::vector<bf16> data(static_cast<std::size_t>(shard.end - shard.begin), bf16(7.0F));
      std::vector<float> master(static_cast<std::size_t>(shard.update_end - shard.update_begin), 7.0F);
      initialize_parameter(shard, 42, DType::bf16, data.data(), master.data());
      for (const ops::ElementRun& run : shard.runs_within(shard.begin, shard.end)) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const float expected = run.global < 0 ? 0.0F : whole.at(static_cast<std::size_t>(run.global + i));
          ASSERT_EQ(data.at(static_cast<std::size_t>(run.local + i)).bits, bf16(expected).bits) << shard.spec->name;
        }
      }
      for (const ops::ElementRun& run : shard.runs_within(shard.update_begin, shard.update_end)) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const float expected = run.global < 0 ? 0.0F : whole.at(static_cast<std::size_t>(run.global + i));
          ASSERT_EQ(master.at(static_cast<std::size_t>(run.local + i)), expected) << shard.spec->name;
        }
      }
    }
  }
}

TEST(InitialWeights, UniformOnesFillTheirInterval) {
  ops::ParameterSpec spec = normal(40, 250, 0.25F, 3);
  spec.init = ops::Init::uniform;
  const std::vector<float> values = testing::initial_values(spec, 42);
  double sum = 0, squares = 0;
  for (const float value : values) {
    EXPECT_GE(value, -0.25F);
    EXPECT_LE(value, 0.25F);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.005);
  EXPECT_NEAR(squares / n, 0.25 * 0.25 / 3, 0.001);
  EXPECT_LT(*std::ranges::min_element(values), -0.249F);
  EXPECT_GT(*std::ranges::max_element(values), 0.249F);
}

TEST(InitialWeights, VectorsAreOnesOrZeros) {
  ops::ParameterSpec spec = normal(1, 9, 0, 0);
  spec.init = ops::Init::ones;
  EXPECT_EQ(testing::initial_values(spec, 1), std::vector<float>(9, 1.0F));
  spec.init = ops::Init::zeros;
  EXPECT_EQ(testing::initial_values(spec, 1), std::vector<float>(9, 0.0F));
}

// ---- the learning rate, computed by hand

/// In a run of `steps` steps with a rate that falls from 1 to 0.2.
double rate(Schedule schedule, std::int64_t steps, std::int64_t warmup, std::int64_t step, double decayed = 0) {
  RunConfig config;
  config.schedule = schedule, config.steps = steps, config.warmup = warmup;
  config.lr = 1.0, config.min_lr = 0.2;
  return learning_rate(config, step, decayed);
}

TEST(LearningRate, IsTheOneComputedByHand) {
  struct Case {
    Schedule schedule;
    std::int64_t steps, warmup, step;
    double expected, decayed = 0;
  };
  constexpr double kRootOfHalf = 0.70710678118654752;
  for (const Case& each :
       {Case{Schedule::cosine, 10, 2, 2, 1}, Case{Schedule::cosine, 10, 2, 4, 0.2 + 0.4 * (1 + kRootOfHalf)},
        Case{Schedule::cosine, 10, 2, 6, 0.6}, Case{Schedule::cosine, 10, 2, 10, 0.2},
        Case{Schedule::cosine, 10, 2, 1000, 0.2}, Case{Schedule::cosine, 10, 0, 0, 1},
        Case{Schedule::linear, 10, 2, 3, 0.9}, Case{Schedule::linear, 10, 2, 6, 0.6},
        Case{Schedule::linear, 10, 2, 10, 0.2}, Case{Schedule::linear, 10, 2, 11, 0.2},
        Case{Schedule::linear, 4, 4, 3, 1}, Case{Schedule::linear, 4, 4, 4, 0.2}, Case{Schedule::constant, 10, 2, 9, 1},
        Case{Schedule::constant, 10, 2, 90, 1},
        // Four fifths of the steps, then down by a root.
        Case{Schedule::wsd, 20, 2, 15, 1}, Case{Schedule::wsd, 20, 2, 16, 1},
        Case{Schedule::wsd, 20, 2, 17, 0.2 + 0.5 * 0.8}, Case{Schedule::wsd, 20, 2, 20, 0.2},
        // The decay begins at floor(0.8 * 15) = 12, which 0.8 in floating point may miss; and at floor(0.8 * 7) = 5.
        Case{Schedule::wsd, 15, 0, 12, 1}, Case{Schedule::wsd, 7, 0, 5, 1},
        Case{Schedule::wsd, 7, 0, 6, 0.2 + (1 - kRootOfHalf) * 0.8},
        // Time between two steps.
        Case{Schedule::linear, 12, 2, 3, 0.8, 0.25}, Case{Schedule::constant, 12, 2, 3, 1, 1}}) {
    EXPECT_NEAR(rate(each.schedule, each.steps, each.warmup, each.step, each.decayed), each.expected, 1e-15)
        << static_cast<int>(each.schedule) << " in step " << each.step << " of " << each.steps;
  }
  EXPECT_LT(rate(Schedule::wsd, 15, 0, 13), 1.0);
}

TEST(LearningRate, WarmsUpByOneStepAheadAndMayBeAheadOfItsSteps) {
  for (const Schedule schedule : {Schedule::cosine, Schedule::wsd, Schedule::linear, Schedule::constant}) {
    EXPECT_DOUBLE_EQ(rate(schedule, 100, 4, 0), 0.25);
    EXPECT_DOUBLE_EQ(rate(schedule, 100, 4, 2), 0.75);
    EXPECT_DOUBLE_EQ(rate(schedule, 100, 4, 3), 1.0);
    EXPECT_DOUBLE_EQ(rate(schedule, 100, 4, 4), 1.0);
    EXPECT_DOUBLE_EQ(rate(schedule, 22, 2, 1, 0.5), 1.0);
    EXPECT_DOUBLE_EQ(rate(schedule, 22, 2, 3, 0.5), rate(schedule, 22, 2, 12));
    EXPECT_DOUBLE_EQ(rate(schedule, 22, 2, 15, 0.5), rate(schedule, 22, 2, 15));
    EXPECT_DOUBLE_EQ(rate(schedule, 22, 2, 3, 0.9), rate(schedule, 22, 2, 20));
    EXPECT_DOUBLE_EQ(rate(schedule, 22, 2, 3, 1), schedule == Schedule::constant ? 1.0 : 0.2);
  }
}

}  // namespace
}  // namespace weft::train
