// Root-mean-square normalisation against double precision and central differences.
#include <gtest/gtest.h>

#include "kernels/cpu/norm/norm.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

constexpr double kRmsEps = 1e-6;

Values rstd_of(std::int64_t rows, std::int64_t cols, const Values& x) {
  Values rstd;
  for (std::int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (std::int64_t c = 0; c < cols; ++c) squares += std::pow(x[static_cast<std::size_t>(r * cols + c)], 2);
    rstd.push_back(1.0 / std::sqrt(squares / static_cast<double>(cols) + kRmsEps));
  }
  return rstd;
}

Values forward(std::int64_t rows, std::int64_t cols, const Values& x, const Values& weight) {
  const Values rstd = rstd_of(rows, cols, x);
  Values y = x;
  const auto n = static_cast<std::size_t>(cols);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= rstd[i / n] * weight[i % n];
  return y;
}

struct RmsBackward {
  Values dx, dweight;
};

RmsBackward rms_backward(std::int64_t rows, std::int64_t cols, const Values& x, const Values& weight,
                         const Values& dy) {
  const Values rstd = rstd_of(rows, cols, x);
  const auto n = static_cast<std::size_t>(cols);
  RmsBackward result{Values(x.size()), Values(n)};
  for (std::size_t r = 0; r < rstd.size(); ++r) {
    double gx_mean = 0;
    for (std::size_t c = 0; c < n; ++c) {
      const double normal = x[r * n + c] * rstd[r];
      gx_mean += dy[r * n + c] * weight[c] * normal / static_cast<double>(n);
      result.dweight[c] += dy[r * n + c] * normal;
    }
    for (std::size_t c = 0; c < n; ++c) {
      result.dx[r * n + c] = rstd[r] * (dy[r * n + c] * weight[c] - x[r * n + c] * rstd[r] * gx_mean);
    }
  }
  return result;
}

class RmsNorm : public testing::ForFloatTypes {};

TEST_P(RmsNorm, ForwardOfOddAndLargeShapes) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 1, 0}, {3, 17, 5}, {70, 768, 3}}) {
    Tensor x = Tensor::random(dtype, rows, cols, 1, 2.0, padding), weight = Tensor::random(dtype, 1, cols, 2);
    Tensor y(dtype, rows, cols, 2 * padding), rstd(DType::f32, 1, rows);
    testing::run_on_one_and_three_threads({}, {&y, &rstd}, [&](Workers& workers) {
      norm_forward(workers, static_cast<float>(kRmsEps), {x.view(), weight.view(), nullptr, rstd.view()}, nullptr,
                   y.view());
    });
    testing::expect_close(y.values(), forward(rows, cols, x.values(), weight.values()), testing::tolerance_of(dtype));
    testing::expect_close(rstd.values(), rstd_of(rows, cols, x.values()), {1e-5, 1e-6}, "rstd");
  }
}

TEST_P(RmsNorm, BackwardWithResidualAndAccumulation) {
  const DType dtype = GetParam();
  for (bool residual : {false, true}) {
    for (bool accumulate : {false, true}) {
      for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 5, 0}, {33, 49, 3}, {600, 130, 1}}) {
        Tensor x = Tensor::random(dtype, rows, cols, 1, 2.0, padding), weight = Tensor::random(dtype, 1, cols, 2);
        Tensor dy = Tensor::random(dtype, rows, cols, 3, 1.0, padding), dx(dtype, rows, cols, padding);
        Tensor dresidual = Tensor::random(dtype, rows, cols, 4, 1.0, padding);
        Tensor rstd(DType::f32, 1, rows, rstd_of(rows, cols, x.values())), dweight(DType::f32, 1, cols);
        if (accumulate) dweight.assign(testing::normal_values(cols, 5));
        const Values before = dweight.values();
        const Matrix extra = dresidual.view();
        testing::run_on_one_and_three_threads(
            norm_backward_scratch(false, rows, cols), {&dx, &dweight}, [&](Workers& workers) {
              norm_backward(workers, {x.view(), weight.view(), nullptr, rstd.view()}, dy.view(),
                            {dx.view(), dweight.view(), nullptr, residual ? &extra : nullptr, accumulate});
            });
        RmsBackward expected = rms_backward(rows, cols, x.values(), weight.values(), dy.values());
        if (residual) expected.dx = testing::plus(expected.dx, dresidual.values());
        if (accumulate) expected.dweight = testing::plus(expected.dweight, before);
        testing::expect_close(dx.values(), expected.dx, testing::tolerance_of(dtype), "dx");
        testing::expect_close(dweight.values(), expected.dweight, {1e-5, 1e-4}, "dweight");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RmsNorm, testing::both_float_types(), testing::type_name);

TEST(RmsNormReference, GradientsAreThoseOfTheForwardPass) {
  const std::int64_t rows = 3, cols = 7;
  const Values x = testing::normal_values(21, 1), weight = testing::normal_values(7, 2);
  const Values dy = testing::normal_values(21, 4);
  const RmsBackward gradient = rms_backward(rows, cols, x, weight, dy);
  const auto loss = [&](const Values& in, const Values& w) { return testing::dot(forward(rows, cols, in, w), dy); };
  testing::expect_close(gradient.dx, testing::numeric_gradient([&](const Values& v) { return loss(v, weight); }, x),
                        {1e-6, 1e-7}, "dx");
  testing::expect_close(gradient.dweight,
                        testing::numeric_gradient([&](const Values& v) { return loss(x, v); }, weight), {1e-6, 1e-7},
                        "dweight");
}

}  // namespace
}  // namespace weft::cpu
