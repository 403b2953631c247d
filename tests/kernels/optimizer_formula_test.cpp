// AdamW of one element with the formula of GPU kernels, computed on the CPU and compared with double precision.
#include "kernels/optimizer_formula.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

TEST(OptimizerFormula, IsAdamW) {
  const kernels::AdamWNumbers s{0.9F, 0.95F, 1e-8F, 0.1F, 3e-4F, 2.0F, 4.0F, 0.5F};
  const kernels::AdamWElement before{0.7F, -0.02F, 0.003F};
  constexpr float kGrad = 0.25F;
  const double g = 0.25 * 0.5, m = 0.9 * -0.02 + 0.1 * g, v = 0.95 * 0.003 + 0.05 * g * g;
  const kernels::AdamWElement after = kernels::adamw_update(s, before, kGrad);
  EXPECT_NEAR(after.m, m, 1e-8);
  EXPECT_NEAR(after.v, v, 1e-9);
  EXPECT_NEAR(after.weight, 0.7 - 3e-4 * (m * 2 / (std::sqrt(v * 4) + 1e-8) + 0.1 * 0.7), 1e-7);
}

TEST(OptimizerFormula, DecaysWithoutAGradient) {
  const kernels::AdamWElement after = kernels::adamw_update({0.9F, 0.95F, 1e-8F, 0.1F, 0.5F, 1, 1, 1}, {2.0F, 0, 0}, 0);
  EXPECT_FLOAT_EQ(after.weight, 2.0F - 0.5F * 0.1F * 2.0F);
}

}  // namespace
}  // namespace weft
