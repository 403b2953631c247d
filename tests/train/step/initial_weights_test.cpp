#include "train/step/initial_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/ops/tiny_model.h"

namespace weft::train {
namespace {

ops::ParameterSpec normal(std::int64_t rows, std::int64_t cols, float std, std::uint32_t site) {
  ops::ParameterSpec spec;
  spec.rows = rows, spec.cols = cols;
  spec.matrix = true;
  spec.init = ops::Init::normal;
  spec.std = std;
  spec.site = site;
  return spec;
}

std::vector<float> values_of(const ops::ParameterSpec& spec, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(spec.rows * spec.cols));
  initialize_parameter(spec, seed, DType::f32, values.data(), nullptr);
  return values;
}

// Over 100,000 draws: mean, variance, tails and neighbours within five standard errors of a normal's.
TEST(InitialWeights, AreNormal) {
  const std::vector<float> values = values_of(normal(400, 250, 0.02F, 3), 42);
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
  const std::vector<float> matrix = values_of(normal(3, 5, 1, 7), 42);
  EXPECT_EQ(values_of(normal(3, 5, 1, 7), 42), matrix);
  EXPECT_NE(values_of(normal(3, 5, 1, 7), 43), matrix);
  EXPECT_NE(values_of(normal(3, 5, 1, 8), 42), matrix);
  // The upper half of a seed counts too.
  EXPECT_NE(values_of(normal(3, 5, 1, 7), 42 + (std::uint64_t{1} << 32)), matrix);
  // A longer parameter begins with the same values: element i's are its own.
  const std::vector<float> longer = values_of(normal(4, 5, 1, 7), 42);
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
      const std::vector<float> whole = values_of(*shard.spec, 42);
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
  const std::vector<float> values = values_of(spec, 42);
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
  EXPECT_EQ(values_of(spec, 1), std::vector<float>(9, 1.0F));
  spec.init = ops::Init::zeros;
  EXPECT_EQ(values_of(spec, 1), std::vector<float>(9, 0.0F));
}

TEST(InitialWeights, Bf16IsTheMasterRounded) {
  const ops::ParameterSpec spec = normal(5, 7, 0.5F, 2);
  std::vector<bf16> rounded(35);
  std::vector<float> master(35);
  initialize_parameter(spec, 42, DType::bf16, rounded.data(), master.data());
  EXPECT_EQ(master, values_of(spec, 42));
  for (std::size_t i = 0; i < master.size(); ++i) EXPECT_EQ(rounded[i].bits, bf16(master[i]).bits);
}

}  // namespace
}  // namespace weft::train
