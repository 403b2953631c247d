// The formulas of GPU kernels, computed on the CPU and compared with double precision.
#include "kernels/activation_formulas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace weft {
namespace {

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double silu_of(double x) {
  return x / (1 + std::exp(-x));
}

double derivative(const std::function<double(double)>& f, double x) {
  constexpr double kStep = 1e-5;
  return (f(x + kStep) - f(x - kStep)) / (2 * kStep);
}

TEST(ActivationFormulas, MatchDoublePrecision) {
  for (double x = -20; x <= 20; x += 0.01) {
    const auto narrow = static_cast<float>(x);
    EXPECT_NEAR(kernels::gelu_tanh(narrow), gelu(narrow), 2e-6 * std::max(1.0, std::abs(x))) << x;
    EXPECT_NEAR(kernels::silu(narrow), silu_of(narrow), 1e-6 * std::max(1.0, std::abs(x))) << x;
    EXPECT_NEAR(kernels::gelu_tanh_gradient(narrow), derivative(gelu, narrow), 4e-6) << x;
    EXPECT_NEAR(kernels::silu_gradient(narrow), derivative(silu_of, narrow), 4e-6) << x;
  }
}

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
