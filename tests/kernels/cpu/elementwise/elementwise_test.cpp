// Small kernels: sums, conversions bit by bit, activations with their gradients, biases and windows of columns.
#include "kernels/cpu/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <limits>
#include <numbers>
#include <stdexcept>

#include "tests/kernels/reference.h"

namespace weft::cpu {

namespace {

using testing::Tensor;
using testing::Values;

class Elementwise : public testing::ForFloatTypes {};

TEST_P(Elementwise, AddsContiguousAndStridedViewsAndInPlace) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 3, 0}, {7, 50, 6}, {2, 70000, 0}}) {
    Tensor a = Tensor::random(dtype, rows, cols, 1, 1.0, padding), b = Tensor::random(dtype, 1, rows * cols, 2);
    Tensor out(dtype, rows, cols, 2 * padding);
    testing::run_on_one_and_three_threads({}, {&out},
                                          [&](Workers& workers) { add(workers, a.view(), b.view(), out.view()); });
    testing::expect_close(out.values(), testing::plus(a.values(), b.values()), testing::tolerance_of(dtype, 1e-7));
    Workers workers(1);
    add(workers, a.view(), b.view(), a.view());
    EXPECT_EQ(a.values(), out.values());
  }
}

TEST_P(Elementwise, ScalesContiguousAndStridedViewsAndInPlace) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 3, 0}, {7, 50, 6}, {2, 70000, 0}}) {
    Tensor x = Tensor::random(dtype, rows, cols, 1, 1.0, padding), out(dtype, rows, cols, 2 * padding);
    Values expected = x.values();
    for (double& value : expected) value *= 0.75;
    testing::run_on_one_and_three_threads({}, {&out},
                                          [&](Workers& workers) { scale(workers, x.view(), 0.75F, out.view()); });
    testing::expect_close(out.values(), expected, testing::tolerance_of(dtype, 1e-7));
    Workers workers(1);
    scale(workers, x.view(), 0.75F, x.view());
    EXPECT_EQ(x.values(), out.values());
  }
}

TEST_P(Elementwise, ZeroesContiguousAndStridedViews) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 3, 0}, {7, 50, 6}, {2, 70000, 0}}) {
    Tensor out = Tensor::random(dtype, rows, cols, 1, 1.0, padding);
    out.assign(Values(static_cast<std::size_t>(rows * cols), std::numeric_limits<double>::quiet_NaN()));
    testing::run_on_one_and_three_threads({}, {&out}, [&](Workers& workers) { zero(workers, out.view()); });
    EXPECT_EQ(out.values(), Values(static_cast<std::size_t>(rows * cols)));
  }
}

TEST_P(Elementwise, BiasGradientSumsRows) {
  const DType dtype = GetParam();
  for (bool accumulate : {false, true}) {
    for (const auto& [rows, cols, padding] :
         {std::array<std::int64_t, 3>{1, 1, 0}, {17, 33, 5}, {6, 2065, 1}, {1100, 2100, 0}}) {
      Tensor dy = Tensor::random(dtype, rows, cols, 1, 1.0, padding), db(DType::f32, 1, cols);
      if (accumulate) db.assign(testing::normal_values(cols, 2));
      Values expected = accumulate ? db.values() : Values(static_cast<std::size_t>(cols));
      const Values dys = dy.values();
      for (std::size_t i = 0; i < dys.size(); ++i) expected[i % expected.size()] += dys[i];
      testing::run_on_one_and_three_threads(bias_gradient_scratch(rows, cols), {&db}, [&](Workers& workers) {
        bias_gradient(workers, dy.view(), db.view(), accumulate);
      });
      testing::expect_close(db.values(), expected, {1e-5, 1e-4});
    }
  }
}

TEST_P(Elementwise, SelectsOneRowAndConvertsIt) {
  const DType dtype = GetParam();
  Tensor x = Tensor::random(dtype, 5, 21, 1, 1.0, 4), same(dtype, 1, 21), wide(DType::f32, 1, 21);
  Workers workers(1);
  for (std::int64_t index : {0, 3, 4, 5, 13}) {
    select_row(workers, x.view(), index, same.view());
    select_row(workers, x.view(), index, wide.view());
    for (std::size_t c = 0; c < 21; ++c) {
      const double expected = x.values()[static_cast<std::size_t>(index % 5) * 21 + c];
      EXPECT_EQ(same.values()[c], expected);
      EXPECT_EQ(wide.values()[c], expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Elementwise, testing::both_float_types(), testing::type_name);

TEST(ElementwiseErrors, MixedTypesAndSizesAreRefused) {
  Tensor a(DType::f32, 2, 4), b(DType::bf16, 2, 4), c(DType::f32, 2, 5);
  Tensor i = Tensor::integers(DType::i32, {1, 2, 3, 4, 5, 6, 7, 8});
  Workers workers(1);
  EXPECT_THROW(add(workers, a.view(), b.view(), a.view()), std::logic_error);
  EXPECT_THROW(add(workers, a.view(), c.view(), a.view()), std::logic_error);
  EXPECT_THROW(add(workers, i.view(), i.view(), i.view()), std::logic_error);
}

TEST(Cast, RoundsToNearestEven) {
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 1, 0}, {7, 29, 3}, {1, 70001, 0}}) {
    Tensor x = Tensor::random(DType::f32, rows, cols, 1, 10.0, padding), out(DType::bf16, rows, cols, 2 * padding);
    Tensor expected(DType::bf16, rows, cols, x.values(), 2 * padding);
    testing::run_on_one_and_three_threads({}, {&out}, [&](Workers& workers) { cast(workers, x.view(), out.view()); });
    EXPECT_EQ(out.bytes(), expected.bytes());
  }
  Tensor ties(DType::f32, 1, 4, {1 + 0x1p-8, 1 + 3 * 0x1p-8, -1 - 0x1p-8, 1 + 0x1p-8 + 0x1p-20}),
      out(DType::bf16, 1, 4);
  Workers workers(1);
  cast(workers, ties.view(), out.view());
  EXPECT_EQ(out.values(), (Values{1, 1 + 0x1p-6, -1, 1 + 0x1p-7}));
}

TEST(Cast, WidensExactly) {
  Tensor x = Tensor::random(DType::bf16, 5, 33, 1, 100.0, 3);
  Tensor rows(DType::f32, 5, 33, 1), back(DType::bf16, 5, 33, 3), same(DType::bf16, 5, 33, 3);
  Workers workers(2);
  cast(workers, x.view(), rows.view());
  EXPECT_EQ(rows.values(), x.values());
  EXPECT_TRUE(rows.padding_untouched());
  cast(workers, rows.view(), back.view());
  EXPECT_EQ(back.bytes(), x.bytes());
  cast(workers, x.view(), same.view());
  EXPECT_EQ(same.bytes(), x.bytes());
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) {
  const double root = std::sqrt(2.0 / std::numbers::pi), t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3.0 * 0.044715 * x * x);
}

// A gate and its slope, which y = gate(left)·right has.
struct Gate {
  double (*of)(double);
  double (*slope)(double);
};
const Gate kSilu = {[](double x) { return x / (1.0 + std::exp(-x)); },
                    [](double x) {
                      const double s = 1.0 / (1.0 + std::exp(-x));
                      return s + x * s * (1.0 - s);
                    }};
const Gate kGelu = {gelu, gelu_slope};

Values gated(const Gate& gate, std::int64_t rows, std::int64_t cols, const Values& x) {
  Values y;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto g = static_cast<std::size_t>(r * 2 * cols + c);
      y.push_back(gate.of(x[g]) * x[g + static_cast<std::size_t>(cols)]);
    }
  }
  return y;
}

Values gated_gradient(const Gate& gate, std::int64_t rows, std::int64_t cols, const Values& x, const Values& dy) {
  Values dx(x.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto g = static_cast<std::size_t>(r * 2 * cols + c), u = g + static_cast<std::size_t>(cols);
      const double d = dy[static_cast<std::size_t>(r * cols + c)];
      dx[g] = d * x[u] * gate.slope(x[g]);
      dx[u] = d * gate.of(x[g]);
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

void check_gated(DType dtype, const Gate& gate, decltype(swiglu_forward)& forward,
                 decltype(swiglu_backward)& backward) {
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 1, 0}, {5, 33, 7}, {40, 1100, 2}}) {
    Tensor x = Tensor::random(dtype, rows, 2 * cols, 1, 3.0, padding), y(dtype, rows, cols, padding);
    Tensor dy = Tensor::random(dtype, rows, cols, 2, 1.0, padding), dx(dtype, rows, 2 * cols, padding);
    testing::run_on_one_and_three_threads({}, {&y, &dx}, [&](Workers& workers) {
      forward(workers, x.view(), y.view());
      backward(workers, x.view(), dy.view(), dx.view());
    });
    testing::expect_close(y.values(), gated(gate, rows, cols, x.values()), testing::tolerance_of(dtype, 1e-6), "y");
    testing::expect_close(dx.values(), gated_gradient(gate, rows, cols, x.values(), dy.values()),
                          testing::tolerance_of(dtype, 1e-5), "dx");
  }
}

TEST_P(Activation, SwiGluOfAnyShape) {
  check_gated(GetParam(), kSilu, swiglu_forward, swiglu_backward);
}

TEST_P(Activation, GeGluOfAnyShape) {
  check_gated(GetParam(), kGelu, geglu_forward, geglu_backward);
}

INSTANTIATE_TEST_SUITE_P(Types, Activation, testing::both_float_types(), testing::type_name);

class Columns : public testing::ForFloatTypes {};

TEST_P(Columns, BiasIsAddedToEveryRow) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {9, 37}, {2, 40003}}) {
    Tensor y = Tensor::random(dtype, rows, cols, 1, 1.0, 3), bias = Tensor::random(dtype, 1, cols, 2);
    Values expected = y.values();
    const Values biases = bias.values();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += biases[i % biases.size()];
    testing::run_on_one_and_three_threads({}, {&y},
                                          [&](Workers& workers) { add_bias(workers, y.view(), bias.view()); });
    testing::expect_close(y.values(), expected, testing::tolerance_of(dtype, 1e-7));
  }
}

TEST_P(Columns, WindowsAreTakenAndPutBack) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {9, 37}, {2, 40003}}) {
    const std::int64_t windows = 3;
    Tensor x = Tensor::random(dtype, rows, cols * windows, 1, 1.0, 3), all(dtype, rows, cols * windows, 2);
    for (std::int64_t window = 0; window < windows; ++window) {
      Tensor taken(dtype, rows, cols, 1), put(dtype, rows, cols * windows, 2);
      testing::run_on_one_and_three_threads({}, {&taken, &put}, [&](Workers& workers) {
        take_columns(workers, x.view(), window, taken.view());
        put_columns(workers, taken.view(), window, put.view());
      });
      const Values in = x.values();
      Values expected, expected_put(in.size());
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t col = 0; col < cols; ++col) {
          const auto i = static_cast<std::size_t>((row * windows + window) * cols + col);
          expected.push_back(in[i]);
          expected_put[i] = in[i];
        }
      }
      EXPECT_EQ(taken.values(), expected);
      EXPECT_EQ(put.values(), expected_put);
      testing::run_on_one_and_three_threads(
          {}, {&put}, [&](Workers& workers) { put_columns(workers, taken.view(), window, put.view(), true); });
      for (double& value : expected_put) value *= 2;
      EXPECT_EQ(put.values(), expected_put);
    }
  }
}

TEST_P(Columns, WindowsOutsideAreRefused) {
  Tensor wide = Tensor::random(GetParam(), 2, 10, 1), narrow = Tensor::random(GetParam(), 2, 5, 2);
  Workers workers(1);
  for (std::int64_t window : {-1, 2}) {
    EXPECT_THROW(take_columns(workers, wide.view(), window, narrow.view()), std::logic_error);
    EXPECT_THROW(put_columns(workers, narrow.view(), window, wide.view()), std::logic_error);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Columns, testing::both_float_types(), testing::type_name);

}  // namespace

}  // namespace weft::cpu
