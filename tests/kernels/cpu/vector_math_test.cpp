// Exponentials, logistic functions and sine/cosine, compared with double precision over their range and at its ends.
#include "kernels/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(VectorMath, SoftmaxExpIsAccurateOverItsRange) {
  for (double x = -87.3; x < 88; x += 0.0037) {
    const auto value = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(value));
    const double error = static_cast<double>(softmax_exp(broadcast(value))[7]) / exact - 1.0;
    ASSERT_LT(std::abs(error), 2.5e-7 + 2e-8 * std::abs(x)) << x;
  }
}

TEST(VectorMath, SoftmaxExpAtTheEnds) {
  const auto at = [](float x) { return softmax_exp(broadcast(x))[3]; };
  EXPECT_EQ(at(0.0F), 1.0F);
  EXPECT_EQ(at(-0.0F), 1.0F);
  EXPECT_EQ(at(-1e-30F), 1.0F);
  EXPECT_NEAR(at(1.0F), std::exp(1.0), 5e-7);
  EXPECT_GT(at(-87.0F), 0.0F);
  for (const float far : {-88.0F, -1e30F, -kInf}) EXPECT_LE(at(far), 1.2e-38F) << far;
  for (const float far : {-88.0F, -1e30F, -kInf}) EXPECT_GE(at(far), 0.0F) << far;
  EXPECT_TRUE(std::isnan(at(kNan)));
}

TEST(VectorMath, LogisticIsAccurateAndSaturates) {
  for (double x = -80; x < 80; x += 0.0123) {
    const auto value = static_cast<float>(x);
    const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(value)));
    EXPECT_NEAR(logistic(broadcast(value))[3] / exact, 1.0, 3e-7) << x;
  }
  EXPECT_EQ(logistic(broadcast(-kInf))[0], 0.0F);
  EXPECT_EQ(logistic(broadcast(kInf))[0], 1.0F);
  EXPECT_TRUE(std::isnan(logistic(broadcast(kNan))[0]));
}

TEST(VectorMath, GatesOfPowersOfTwoAreAccurateAndVanish) {
  const auto at = [](float x, float a, float b) {
    return over_one_plus_exp2_of(broadcast(x), broadcast(a), broadcast(b))[3];
  };
  for (double exponent = -125.9; exponent < 125.9; exponent += 0.0123) {
    const auto a = static_cast<float>(exponent / 1.7);
    const double exact = 1.0 / (1.0 + std::exp2(static_cast<double>(a) * static_cast<double>(1.7F)));
    EXPECT_NEAR(at(1.0F, a, 1.7F) / exact, 1.0, 4e-7) << exponent;
    EXPECT_NEAR(at(-3.0F, a, 1.7F) / exact, -3.0, 1.2e-6) << exponent;
  }
  EXPECT_EQ(at(-1e38F, 64.0F, 2.0F), 0.0F);
  EXPECT_EQ(at(1e38F, -63.0F, 2.0F), 1e38F);
  EXPECT_TRUE(std::isnan(at(kNan, 1.0F, 1.0F)));
  EXPECT_TRUE(std::isnan(at(1.0F, kNan, 1.0F)));
  for (float x = 126; x < 128; x += 0.01F) EXPECT_LE(at(1.0F, x, 1.0F), 1.2e-38F) << x;
}

TEST(VectorMath, SineAndCosineKeepTheirAccuracyAtLargePositions) {
  double worst = 0;
  for (double x = -50; x < 1e6; x = x < 50 ? x + 0.0017 : x * 1.0003 + 0.1) {
    const auto value = static_cast<float>(x);
    const SineCosine both = sine_cosine(broadcast(value));
    worst = std::max(worst, std::abs(both.sine[2] - std::sin(static_cast<double>(value))));
    worst = std::max(worst, std::abs(both.cosine[5] - std::cos(static_cast<double>(value))));
  }
  EXPECT_LT(worst, 1.5e-7);
}

}  // namespace
}  // namespace weft::cpu
