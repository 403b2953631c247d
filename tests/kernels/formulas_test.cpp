// The formulas of GPU kernels at the ends of their range, computed on the CPU.
#include "kernels/formulas.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(ActivationFormulas, LargeArgumentsHaveLimits) {
  for (const float x : {1e4F, 1e30F}) {
    EXPECT_EQ(kernels::gelu_tanh(x), x);
    EXPECT_EQ(kernels::gelu_tanh(-x), 0.0F);
    EXPECT_NEAR(kernels::gelu_tanh_gradient(x), 1, 1e-6);
    EXPECT_NEAR(kernels::gelu_tanh_gradient(-x), 0, 1e-6);
    EXPECT_EQ(kernels::silu(x), x);
  }
}

}  // namespace
}  // namespace weft
