// Rotary embedding against double precision, its inverse, and Llama 3's frequencies.
#include <gtest/gtest.h>

#include <numbers>

#include "kernels/cpu/attention/attention.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

Values rotate(const std::vector<float>& frequencies, std::int64_t heads, std::int64_t seq, std::int64_t offset,
              double direction, const Values& x) {
  Values y = x;
  const std::size_t half = frequencies.size(), cols = static_cast<std::size_t>(heads) * 2 * half;
  for (std::size_t r = 0; r < x.size() / cols; ++r) {
    const auto position = static_cast<double>(offset + static_cast<std::int64_t>(r) % seq);
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
      for (std::size_t j = 0; j < half; ++j) {
        const std::size_t a = r * cols + h * 2 * half + j, b = a + half;
        const double angle = direction * position * frequencies[j];
        y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        y[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
      }
    }
  }
  return y;
}

class RotaryEmbedding : public testing::ForFloatTypes {};

TEST_P(RotaryEmbedding, RotatesPairsByPosition) {
  const DType dtype = GetParam();
  for (std::int64_t head_dim : {2, 10, 64}) {
    for (std::int64_t offset : {0, 1000}) {
      const std::int64_t heads = 3, seq = 40, rows = 80;
      const std::vector<float> frequencies = rope_frequencies(head_dim, 10000.0F, {});
      Tensor x = Tensor::random(dtype, rows, heads * head_dim, 1, 1.0, 5);
      const Values before = x.values();
      testing::run_on_one_and_three_threads(rope_scratch(head_dim), {&x}, [&](Workers& workers) {
        rope(workers, frequencies, heads, seq, offset, false, x.view());
      });
      // Angles are fp32 products: an error of 2⁻²⁴ of the largest angle.
      const double angle_error = 2e-7 * static_cast<double>(offset + seq) * 4;
      testing::expect_close(x.values(), rotate(frequencies, heads, seq, offset, 1.0, before),
                            testing::tolerance_of(dtype, 1e-6 + angle_error));
      const Values rotated = x.values();
      Workers workers(1);
      workers.reserve(rope_scratch(head_dim));
      rope(workers, frequencies, heads, seq, offset, true, x.view());
      testing::expect_close(x.values(), rotate(frequencies, heads, seq, offset, -1.0, rotated),
                            testing::tolerance_of(dtype, 1e-6 + angle_error));
      if (dtype == DType::f32) testing::expect_close(x.values(), before, {1e-5, 1e-6});
    }
  }
}

TEST_P(RotaryEmbedding, MultipliesByAFactor) {
  const std::vector<float> frequencies = rope_frequencies(10, 10000.0F, {});
  Tensor x = Tensor::random(GetParam(), 30, 20, 1);
  Values expected = rotate(frequencies, 2, 15, 4, -1.0, x.values());
  for (double& value : expected) value *= 1.25;
  Workers workers(1);
  workers.reserve(rope_scratch(10));
  rope(workers, frequencies, 2, 15, 4, true, x.view(), 1.25F);
  testing::expect_close(x.values(), expected, testing::tolerance_of(GetParam(), 1e-5));
}

INSTANTIATE_TEST_SUITE_P(Types, RotaryEmbedding, testing::both_float_types(), testing::type_name);

TEST(RopeFrequencies, FollowThePowersOfTheta) {
  const std::vector<float> f = rope_frequencies(8, 10000.0F, {});
  ASSERT_EQ(f.size(), 4U);
  EXPECT_FLOAT_EQ(f[0], 1.0F);
  EXPECT_FLOAT_EQ(f[1], 0.1F);
  EXPECT_FLOAT_EQ(f[2], 0.01F);
  EXPECT_FLOAT_EQ(f[3], 0.001F);
}

TEST(RopeFrequencies, LinearDividesAll) {
  const std::vector<float> plain = rope_frequencies(8, 10000.0F, {});
  const std::vector<float> scaled = rope_frequencies(8, 10000.0F, {.factor = 4.0F, .kind = RopeScaling::Kind::linear});
  for (std::size_t j = 0; j < plain.size(); ++j) EXPECT_FLOAT_EQ(scaled[j], plain[j] / 4);
}

// By transformers 5.24 for head_dim 16, rope_theta 1e4, factor 4 and a context of 4096 before scaling.
TEST(RopeFrequencies, YarnBlendsBetweenWholePairsOrFractionsOfThem) {
  RopeScaling scaling{4.0F, 1.0F, 32.0F, 4096.0F, RopeScaling::Kind::yarn};
  const std::vector<float> whole = rope_frequencies(16, 10000.0F, scaling);
  scaling.fractional = true;
  const std::vector<float> fractional = rope_frequencies(16, 10000.0F, scaling);
  const std::vector<double> expected_whole = {
      1, 0.31622776, 0.1, 0.025693506, 0.0062499996, 0.0013834966, 0.00025000001, 7.9056947e-05};
  const std::vector<double> expected_fractional = {1,           0.31622776,   0.1,           0.02861361,
                                                   0.006556971, 0.0012856319, 0.00025000001, 7.9056947e-05};
  for (std::size_t j = 0; j < 8; ++j) {
    EXPECT_NEAR(whole[j] / expected_whole[j], 1, 1e-6) << j;
    EXPECT_NEAR(fractional[j] / expected_fractional[j], 1, 1e-6) << j;
  }
}

TEST(RopeFrequencies, Llama3StretchesLongWavelengths) {
  const RopeScaling scaling{8.0F, 1.0F, 4.0F, 8192.0F};
  const std::vector<float> plain = rope_frequencies(128, 500000.0F, {});
  const std::vector<float> scaled = rope_frequencies(128, 500000.0F, scaling);
  int kept = 0, stretched = 0, blended = 0;
  for (std::size_t j = 0; j < plain.size(); ++j) {
    const double f = plain[j], wavelength = 2 * std::numbers::pi / f;
    double expected = f;
    if (wavelength > 8192.0 / 1.0) {
      expected = f / 8.0;
      ++stretched;
    } else if (wavelength < 8192.0 / 4.0) {
      ++kept;
    } else {
      const double s = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
      expected = (1 - s) * f / 8.0 + s * f;
      ++blended;
    }
    EXPECT_NEAR(scaled[j] / expected, 1.0, 1e-6) << j;
  }
  EXPECT_GT(kept, 20);
  EXPECT_GT(stretched, 20);
  EXPECT_GT(blended, 3);
}

}  // namespace
}  // namespace weft::cpu
