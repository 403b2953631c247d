// Layer normalisation against double precision and central differences.
#include <gtest/gtest.h>

#include "kernels/cpu/norm/norm.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

constexpr double kEps = 1e-5;

struct Forward {
  Values y, mean, rstd;
};

Forward forward(std::int64_t rows, std::int64_t cols, const Values& x, const Values& weight, const Values& bias) {
  Forward result;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* row = x.data() + r * cols;
    double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < cols; ++c) mean += row[c] / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c) variance += (row[c] - mean) * (row[c] - mean) / static_cast<double>(cols);
    const double rstd = 1.0 / std::sqrt(variance + kEps);
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(c);
      result.y.push_back((row[c] - mean) * rstd * weight[i] + bias[i]);
    }
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
  }
  return result;
}

struct Backward {
  Values dx, dweight, dbias;
};

Backward backward(std::int64_t rows, std::int64_t cols, const Values& x, const Values& weight, const Values& dy) {
  const auto n = static_cast<std::size_t>(cols);
  const Forward f = forward(rows, cols, x, weight, Values(n));
  Backward result{Values(x.size()), Values(n), Values(n)};
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    double g_mean = 0, gx_mean = 0;
    for (std::size_t c = 0; c < n; ++c) {
      const double normal = (x[r * n + c] - f.mean[r]) * f.rstd[r], d = dy[r * n + c];
      g_mean += d * weight[c] / static_cast<double>(n);
      gx_mean += d * weight[c] * normal / static_cast<double>(n);
      result.dweight[c] += d * normal;
      result.dbias[c] += d;
    }
    for (std::size_t c = 0; c < n; ++c) {
      const double normal = (x[r * n + c] - f.mean[r]) * f.rstd[r];
      result.dx[r * n + c] = f.rstd[r] * (dy[r * n + c] * weight[c] - g_mean - normal * gx_mean);
    }
  }
  return result;
}

class LayerNorm : public testing::ForFloatTypes {};

TEST_P(LayerNorm, ForwardOfOddAndLargeShapes) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 1, 0}, {3, 17, 5}, {70, 768, 3}}) {
    Tensor x = Tensor::random(dtype, rows, cols, 1, 2.0, padding), weight = Tensor::random(dtype, 1, cols, 2);
    Tensor bias = Tensor::random(dtype, 1, cols, 3), y(dtype, rows, cols, 2 * padding);
    Tensor mean(DType::f32, 1, rows), rstd(DType::f32, 1, rows);
    const Matrix mean_view = mean.view(), shift = bias.view();
    testing::run_on_one_and_three_threads({}, {&y, &mean, &rstd}, [&](Workers& workers) {
      norm_forward(workers, static_cast<float>(kEps), {x.view(), weight.view(), &mean_view, rstd.view()}, &shift,
                   y.view());
    });
    const Forward expected = forward(rows, cols, x.values(), weight.values(), bias.values());
    testing::expect_close(y.values(), expected.y, testing::tolerance_of(dtype), "y");
    testing::expect_close(mean.values(), expected.mean, {1e-5, 1e-6}, "mean");
    testing::expect_close(rstd.values(), expected.rstd, {1e-5, 1e-6}, "rstd");
  }
}

TEST_P(LayerNorm, ForwardKeepsAccuracyFarFromZero) {
  const DType dtype = GetParam();
  Values values = testing::normal_values(256, 1);
  for (double& value : values) value = 1000.0 + 4.0 * std::round(value * 8.0);  // exact in bf16
  Tensor x(dtype, 1, 256, values), weight(dtype, 1, 256, Values(256, 1.0)), bias(dtype, 1, 256, Values(256, 0.0));
  Tensor y(dtype, 1, 256), mean(DType::f32, 1, 1), rstd(DType::f32, 1, 1);
  const Matrix mean_view = mean.view(), shift = bias.view();
  Workers workers(1);
  norm_forward(workers, static_cast<float>(kEps), {x.view(), weight.view(), &mean_view, rstd.view()}, &shift, y.view());
  testing::expect_close(y.values(), forward(1, 256, x.values(), weight.values(), bias.values()).y,
                        testing::tolerance_of(dtype, 1e-5));
}

TEST_P(LayerNorm, BackwardWithResidualAndAccumulation) {
  const DType dtype = GetParam();
  for (bool residual : {false, true}) {
    for (bool accumulate : {false, true}) {
      for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 5, 0}, {33, 49, 3}, {600, 130, 1}}) {
        Tensor x = Tensor::random(dtype, rows, cols, 1, 2.0, padding), weight = Tensor::random(dtype, 1, cols, 2);
        Tensor dy = Tensor::random(dtype, rows, cols, 3, 1.0, padding);
        Tensor dresidual = Tensor::random(dtype, rows, cols, 4, 1.0, padding), dx(dtype, rows, cols, padding);
        const Forward f = forward(rows, cols, x.values(), weight.values(), Values(static_cast<std::size_t>(cols)));
        Tensor mean(DType::f32, 1, rows, f.mean), rstd(DType::f32, 1, rows, f.rstd);
        Tensor dweight(DType::f32, 1, cols), dbias(DType::f32, 1, cols);
        if (accumulate) {
          dweight.assign(testing::normal_values(cols, 5));
          dbias.assign(testing::normal_values(cols, 6));
        }
        const Values dweight_before = dweight.values(), dbias_before = dbias.values();
        const Matrix extra = dresidual.view(), mean_view = mean.view(), shift = dbias.view();
        testing::run_on_one_and_three_threads(
            norm_backward_scratch(true, rows, cols), {&dx, &dweight, &dbias}, [&](Workers& workers) {
              norm_backward(workers, {x.view(), weight.view(), &mean_view, rstd.view()}, dy.view(),
                            {dx.view(), dweight.view(), &shift, residual ? &extra : nullptr, accumulate});
            });
        Backward expected = backward(rows, cols, x.values(), weight.values(), dy.values());
        if (residual) expected.dx = testing::plus(expected.dx, dresidual.values());
        if (accumulate) {
          expected.dweight = testing::plus(expected.dweight, dweight_before);
          expected.dbias = testing::plus(expected.dbias, dbias_before);
        }
        testing::expect_close(dx.values(), expected.dx, testing::tolerance_of(dtype), "dx");
        testing::expect_close(dweight.values(), expected.dweight, {1e-5, 1e-4}, "dweight");
        testing::expect_close(dbias.values(), expected.dbias, {1e-5, 1e-4}, "dbias");
      }
    }
  }
}

TEST_P(LayerNorm, BackwardMayWriteOverItsResidual) {
  const DType dtype = GetParam();
  const std::int64_t rows = 20, cols = 40;
  Tensor x = Tensor::random(dtype, rows, cols, 1), weight = Tensor::random(dtype, 1, cols, 2);
  Tensor dy = Tensor::random(dtype, rows, cols, 3), dx = Tensor::random(dtype, rows, cols, 4);
  const Forward f = forward(rows, cols, x.values(), weight.values(), Values(static_cast<std::size_t>(cols)));
  Tensor mean(DType::f32, 1, rows, f.mean), rstd(DType::f32, 1, rows, f.rstd);
  Tensor dweight(DType::f32, 1, cols), dbias(DType::f32, 1, cols);
  const Values expected = testing::plus(backward(rows, cols, x.values(), weight.values(), dy.values()).dx, dx.values());
  const Matrix in_place = dx.view(), mean_view = mean.view(), shift = dbias.view();
  Workers workers(1);
  workers.reserve(norm_backward_scratch(true, rows, cols));
  norm_backward(workers, {x.view(), weight.view(), &mean_view, rstd.view()}, dy.view(),
                {in_place, dweight.view(), &shift, &in_place, false});
  testing::expect_close(dx.values(), expected, testing::tolerance_of(dtype));
}

INSTANTIATE_TEST_SUITE_P(Types, LayerNorm, testing::both_float_types(), testing::type_name);

TEST(LayerNormReference, GradientsAreThoseOfTheForwardPass) {
  const std::int64_t rows = 3, cols = 7;
  const Values x = testing::normal_values(21, 1), weight = testing::normal_values(7, 2);
  const Values bias = testing::normal_values(7, 3), dy = testing::normal_values(21, 4);
  const Backward gradient = backward(rows, cols, x, weight, dy);
  const auto loss = [&](const Values& in, const Values& w, const Values& b) {
    return testing::dot(forward(rows, cols, in, w, b).y, dy);
  };
  const testing::Tolerance close{1e-6, 1e-7};
  testing::expect_close(
      gradient.dx, testing::numeric_gradient([&](const Values& v) { return loss(v, weight, bias); }, x), close, "dx");
  testing::expect_close(gradient.dweight,
                        testing::numeric_gradient([&](const Values& v) { return loss(x, v, bias); }, weight), close,
                        "dweight");
  testing::expect_close(gradient.dbias,
                        testing::numeric_gradient([&](const Values& v) { return loss(x, weight, v); }, bias), close,
                        "dbias");
}

}  // namespace
}  // namespace weft::cpu
