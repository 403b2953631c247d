// Exponentials of bf16 logits near a reference, and the check that all logits were near.
#include "kernels/cpu/loss/near_exponentials.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/loss/exponential_sum.h"

#if defined(__AVX512BW__)
namespace weft::cpu {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

bf16 of_bits(std::uint16_t bits) {
  bf16 value;
  value.bits = bits;
  return value;
}

TEST(NearExponentials, AreAccurateForReferencesOfEverySize) {
  for (const float reference : {0.0F, 0.0117F, -3.3F, 77.7F, -1234.5F, 39999.0F, -40000.0F}) {
    const NearExponentials exponential(reference);
    for (double distance = -87.0; distance < 88.0; distance += 0.0137) {
      const auto x = static_cast<float>(static_cast<double>(reference) + distance);
      const double exact = static_cast<double>(x) - static_cast<double>(reference);
      if (exact < -87.0 || exact > 88.0) continue;
      const double error = static_cast<double>(exponential(broadcast(x)).value()[5]) / std::exp(exact) - 1.0;
      ASSERT_LT(std::abs(error), 3.5e-7 + 2e-8 * std::abs(exact)) << reference << " + " << exact;
    }
  }
}

template <bool kNegative>
Bf16Extremes<kNegative> extremes_of(float first, float everywhere, bf16 once) {
  std::vector<bf16> values(6 * kLanes, bf16(everywhere));
  values[3 * kLanes + 5] = once;
  Bf16Extremes<kNegative> extremes((bf16(first)));
  const Watching<kNegative> in{{values.data(), values.data()}, extremes};
  for (std::int64_t i = 0; i < 6 * kLanes; i += 2 * kLanes) {
    const Pair pair = in_element_order(load_pair(in + i), static_cast<const bf16*>(nullptr));
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto at = static_cast<std::size_t>(i + lane);
      EXPECT_TRUE(pair.first[lane] == static_cast<float>(values[at]) || std::isnan(pair.first[lane]));
      EXPECT_TRUE(pair.second[lane] == static_cast<float>(values[at + kLanes]) || std::isnan(pair.second[lane]));
    }
  }
  return extremes;
}

TEST(NearExponentials, TheLargestIsFound) {
  EXPECT_EQ(extremes_of<false>(2.0F, -8.0F, bf16(5.0F)).largest(), 5.0F);
  EXPECT_EQ(extremes_of<false>(2.0F, -8.0F, bf16(1.0F)).largest(), 2.0F);
  EXPECT_EQ(extremes_of<false>(0.0F, -8.0F, bf16(-1.0F)).largest(), 0.0F);
  EXPECT_EQ(extremes_of<false>(2.0F, 1.0F, bf16(kFloatInfinity)).largest(), kFloatInfinity);
  EXPECT_EQ(extremes_of<true>(-9.0F, -20.0F, bf16(-5.0F)).largest(), -5.0F);
  EXPECT_EQ(extremes_of<true>(-9.0F, -20.0F, bf16(-50.0F)).largest(), -9.0F);
  EXPECT_EQ(extremes_of<true>(-9.0F, -20.0F, bf16(0.0F)).largest(), std::nullopt);
  EXPECT_EQ(extremes_of<true>(-9.0F, -20.0F, bf16(kFloatInfinity)).largest(), std::nullopt);
  EXPECT_EQ(extremes_of<true>(-9.0F, -20.0F, of_bits(0x7fc0)).largest(), std::nullopt);  // NaN
}

TEST(NearExponentials, WhatLiesBelowABoundIsFound) {
  const auto below = [](float everywhere, bf16 once, float bound) {
    const bool negative = extremes_of<true>(-1.0F, everywhere, once).may_be_below(bound);
    EXPECT_EQ(negative, extremes_of<false>(1.0F, everywhere, once).may_be_below(bound));
    return negative;
  };
  EXPECT_FALSE(below(-8.0F, bf16(-80.0F), -80.5F));
  EXPECT_FALSE(below(-8.0F, bf16(-80.0F), -80.0F));
  EXPECT_TRUE(below(-8.0F, bf16(-80.0F), -79.9F));
  EXPECT_TRUE(below(-8.0F, bf16(-kFloatInfinity), -1e38F));
  EXPECT_TRUE(below(-8.0F, of_bits(0xffc0), -1e38F));  // a negative NaN
  EXPECT_FALSE(below(3.0F, bf16(4.0F), -0.1F));
  EXPECT_TRUE(below(3.0F, bf16(4.0F), 1.0F));  // a bound above 0 can't be checked
}

// A logit of a row is far above or below the others, infinite or NaN: sums equal sums in double precision.
TEST(NearExponentials, SumsOfRowsWithALogitFarAway) {
  constexpr std::int64_t kLogits = 3 * kExponentialPart<bf16> + 77;
  for (const float middle : {-300.0F, -30.0F, 0.0F, 30.0F, 300.0F, 50000.0F, -200000.0F}) {
    for (const float far : {0.0F, 39.0F, 41.0F, 100.0F, 400.0F, -86.0F, -90.0F, -400.0F, -kFloatInfinity}) {
      for (const std::int64_t at : {std::int64_t{3}, kExponentialPart<bf16> + 1000, kLogits - 1}) {
        std::vector<bf16> logits;
        for (std::int64_t i = 0; i < kLogits; ++i) {
          logits.emplace_back(middle + 4.0F * static_cast<float>(std::sin(static_cast<double>(i) * 0.37)));
        }
        logits[static_cast<std::size_t>(at)] = bf16(middle + far);
        double top = -kFloatInfinity, total = 0;
        for (const bf16 logit : logits) top = std::max(top, static_cast<double>(static_cast<float>(logit)));
        for (const bf16 logit : logits) total += std::exp(static_cast<double>(static_cast<float>(logit)) - top);
        const ExponentialSum sum = exponential_sum(logits.data(), kLogits);
        ASSERT_NEAR(sum.log_sum_exp() - top, std::log(total), 1e-6) << middle << ' ' << far << ' ' << at;
        ASSERT_EQ(sum.largest, static_cast<float>(top)) << middle << ' ' << far << ' ' << at;
        for (const std::uint16_t nan : {0x7fc0, 0xffc0}) {
          logits[static_cast<std::size_t>(at)] = of_bits(nan);
          ASSERT_TRUE(std::isnan(exponential_sum(logits.data(), kLogits).total)) << middle << ' ' << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::cpu
#endif
