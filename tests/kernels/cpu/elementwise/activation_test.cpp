// GELU and SwiGLU against double precision and central differences.
#include "kernels/cpu/elementwise/activation.h"

#include <gtest/gtest.h>

#include <numbers>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) {
  const double root = std::sqrt(2.0 / std::numbers::pi), t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3.0 * 0.044715 * x * x);
}

Values swiglu(std::int64_t rows, std::int64_t cols, const Values& x) {
  Values y;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const double gate = x[static_cast<std::size_t>(r * 2 * cols + c)];
      y.push_back(gate / (1.0 + std::exp(-gate)) * x[static_cast<std::size_t>(r * 2 * cols + cols + c)]);
    }
  }
  return y;
}

Values swiglu_gradient(std::int64_t rows, std::int64_t cols, const Values& x, const Values& dy) {
  Values dx(x.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto g = static_cast<std::size_t>(r * 2 * cols + c), u = static_cast<std::size_t>(r * 2 * cols + cols + c);
      const double s = 1.0 / (1.0 + std::exp(-x[g])), d = dy[static_cast<std::size_t>(r * cols + c)];
      dx[g] = d * x[u] * (s + x[g] * s * (1.0 - s));
      dx[u] = d * x[g] * s;
    }
  }
  return dx;
}

class Activation : public testing::ForFloatTypes {};

TEST_P(Activation, GeluOfAnyShape) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 1, 0}, {5, 33, 7}, {3, 40001, 0}}) {
    Tensor x = Tensor::random(dtype, rows, cols, 1, 3.0, padding), dy = Tensor::random(dtype, rows, cols, 2);
    Tensor y(dtype, rows, cols), dx(dtype, rows, cols, padding);
    testing::run_on_one_and_three_threads({}, {&y, &dx}, [&](Workers& workers) {
      gelu_forward(workers, x.view(), y.view());
      gelu_backward(workers, x.view(), dy.view(), dx.view());
    });
    Values expected, gradient;
    const Values xs = x.values(), dys = dy.values();
    for (std::size_t i = 0; i < xs.size(); ++i) {
      expected.push_back(gelu(xs[i]));
      gradient.push_back(dys[i] * gelu_slope(xs[i]));
    }
    testing::expect_close(y.values(), expected, testing::tolerance_of(dtype, 1e-6), "y");
    testing::expect_close(dx.values(), gradient, testing::tolerance_of(dtype, 1e-5), "dx");
  }
}

TEST_P(Activation, GeluSaturatesAndPassesNanOn) {
  const DType dtype = GetParam();
  const Values extremes = {-1e30, -100, -13, 0, 13, 100, 1e30, std::numeric_limits<double>::quiet_NaN()};
  Tensor x(dtype, 1, 8, extremes), dy(dtype, 1, 8, Values(8, 1.0)), y(dtype, 1, 8), dx(dtype, 1, 8);
  Workers workers(1);
  gelu_forward(workers, x.view(), y.view());
  gelu_backward(workers, x.view(), dy.view(), dx.view());
  for (std::size_t i = 0; i < 7; ++i) {
    const double stored = x.values()[i];
    EXPECT_EQ(y.values()[i], stored > 0 ? stored : 0.0);
    EXPECT_EQ(dx.values()[i], stored > 0 ? 1.0 : stored < 0 ? 0.0 : 0.5);
  }
  EXPECT_TRUE(std::isnan(y.values()[7]));
  EXPECT_TRUE(std::isnan(dx.values()[7]));
}

// For each of the 65536 arguments, the bf16 result is the fp32 result rounded once, however it is computed. A NaN may
// have other bits.
void expect_rounded(Tensor& narrow, Tensor& wide) {
  int failures = 0;
  for (std::int64_t i = 0; i < narrow.view().cols && failures < 5; ++i) {
    const bf16 actual = narrow.view().b16()[i], expected(wide.view().f32()[i]);
    const bool both_nan = std::isnan(static_cast<float>(actual)) && std::isnan(static_cast<float>(expected));
    EXPECT_TRUE(both_nan || actual.bits == expected.bits) << i << ": " << actual.bits << ", expected " << expected.bits;
    failures += both_nan || actual.bits == expected.bits ? 0 : 1;
  }
}

// Every bf16, then the same number of random values, in both types.
struct EveryArgument {
  static constexpr std::int64_t kCount = 65536;
  Tensor narrow{DType::bf16, 1, 2 * kCount}, wide{DType::f32, 1, 2 * kCount};

  EveryArgument() {
    const Values random = testing::normal_values(kCount, 7);
    for (std::int64_t i = 0; i < kCount; ++i) {
      narrow.view().b16()[i].bits = static_cast<std::uint16_t>(i);
      narrow.view().b16()[kCount + i] = bf16(static_cast<float>(random[static_cast<std::size_t>(i)]));
    }
    for (std::int64_t i = 0; i < 2 * kCount; ++i) wide.view().f32()[i] = static_cast<float>(narrow.view().b16()[i]);
  }
};

TEST(ActivationOfEveryBf16, GeluIsFp32Rounded) {
  EveryArgument x;
  constexpr std::int64_t kCount = EveryArgument::kCount;
  Tensor y(DType::bf16, 1, kCount), wide_y(DType::f32, 1, kCount), dx = y, wide_dx = wide_y;
  Workers workers(1);
  gelu_forward(workers, x.narrow.columns(0, kCount), y.view());
  gelu_forward(workers, x.wide.columns(0, kCount), wide_y.view());
  expect_rounded(y, wide_y);
  gelu_backward(workers, x.narrow.columns(0, kCount), x.narrow.columns(kCount, kCount), dx.view());
  gelu_backward(workers, x.wide.columns(0, kCount), x.wide.columns(kCount, kCount), wide_dx.view());
  expect_rounded(dx, wide_dx);
}

TEST(ActivationOfEveryBf16, SwiGluIsFp32Rounded) {
  EveryArgument x;
  constexpr std::int64_t kCount = EveryArgument::kCount;
  Tensor y(DType::bf16, 1, kCount), wide_y(DType::f32, 1, kCount);
  Tensor dx(DType::bf16, 1, 2 * kCount), wide_dx(DType::f32, 1, 2 * kCount);
  Workers workers(1);
  swiglu_forward(workers, x.narrow.view(), y.view());
  swiglu_forward(workers, x.wide.view(), wide_y.view());
  expect_rounded(y, wide_y);
  swiglu_backward(workers, x.narrow.view(), x.narrow.columns(kCount, kCount), dx.view());
  swiglu_backward(workers, x.wide.view(), x.wide.columns(kCount, kCount), wide_dx.view());
  expect_rounded(dx, wide_dx);
}

TEST_P(Activation, SwiGluOfAnyShape) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 1, 0}, {5, 33, 7}, {40, 1100, 2}}) {
    Tensor x = Tensor::random(dtype, rows, 2 * cols, 1, 3.0, padding), y(dtype, rows, cols, padding);
    Tensor dy = Tensor::random(dtype, rows, cols, 2, 1.0, padding), dx(dtype, rows, 2 * cols, padding);
    testing::run_on_one_and_three_threads({}, {&y, &dx}, [&](Workers& workers) {
      swiglu_forward(workers, x.view(), y.view());
      swiglu_backward(workers, x.view(), dy.view(), dx.view());
    });
    testing::expect_close(y.values(), swiglu(rows, cols, x.values()), testing::tolerance_of(dtype, 1e-6), "y");
    testing::expect_close(dx.values(), swiglu_gradient(rows, cols, x.values(), dy.values()),
                          testing::tolerance_of(dtype, 1e-5), "dx");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Activation, testing::both_float_types(), testing::type_name);

TEST(ActivationReference, GradientsAreThoseOfTheForwardPass) {
  for (double x : {-6.0, -1.3, -0.1, 0.0, 0.7, 2.0, 8.0}) {
    EXPECT_NEAR((gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5, gelu_slope(x), 1e-8);
  }
  const Values x = testing::normal_values(30, 1, 2.0), dy = testing::normal_values(15, 2);
  testing::expect_close(
      swiglu_gradient(3, 5, x, dy),
      testing::numeric_gradient([&](const Values& v) { return testing::dot(swiglu(3, 5, v), dy); }, x), {1e-6, 1e-7});
}

}  // namespace
}  // namespace weft::cpu
