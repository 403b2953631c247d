// A norm of rows and its gradient, whole or in parts by columns, and both in double precision.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/norm/norm.h"
#include "tests/kernels/reference.h"

namespace weft::cpu::testing {

constexpr float kNormEps = 1e-5F;

inline Matrix rows_of(Matrix matrix, std::int64_t first, std::int64_t rows) {
  matrix.data = static_cast<std::byte*>(matrix.data) +
                static_cast<std::size_t>(first * matrix.row_stride) * size_of(matrix.dtype);
  matrix.rows = rows;
  return matrix;
}

struct NormShape {
  std::int64_t rows, cols, parts, padding;  // cols: in the whole row
};

// All arguments of a norm and its gradient, whole and divided by columns into parts.
struct NormCase {
  bool centered;
  NormShape shape;
  Tensor x, weight, bias, dy, dresidual;
  Tensor y, mean, rstd, dx, dweight, dbias;

  NormCase(bool is_centered, DType dtype, const NormShape& of, const Values& values)
      : centered(is_centered),
        shape(of),
        x(dtype, of.rows, of.cols, values, of.padding),
        weight(Tensor::random(dtype, 1, of.cols, 2)),
        bias(Tensor::random(dtype, 1, of.cols, 3)),
        dy(Tensor::random(dtype, of.rows, of.cols, 4, 1.0, of.padding)),
        dresidual(Tensor::random(dtype, of.rows, of.cols, 5, 1.0, 2 * of.padding)),
        y(dtype, of.rows, of.cols, of.padding),
        mean(DType::f32, 1, of.rows),
        rstd(DType::f32, 1, of.rows),
        dx(dtype, of.rows, of.cols, of.padding),
        dweight(Tensor::random(DType::f32, 1, of.cols, 6)),
        dbias(Tensor::random(DType::f32, 1, of.cols, 7)) {
    if (!centered) mean.assign(Values(static_cast<std::size_t>(of.rows), 0.0));
  }

  std::vector<Tensor*> outputs() { return {&y, &mean, &rstd, &dx, &dweight, &dbias}; }
  std::int64_t part_cols() const { return shape.cols / shape.parts; }
  Scratch scratch() const { return norm_backward_scratch(centered, shape.rows, part_cols()); }

  // The work of all ranks that share rows, one rank after the other.
  void run_in_parts(Workers& workers, bool residual, bool accumulate) {
    const std::int64_t rows = shape.rows, parts = shape.parts, cols = part_cols(), numbers = centered ? 2 : 1;
    Tensor statistics(DType::f32, parts * rows, numbers), sums(DType::f32, rows, numbers);
    for (std::int64_t p = 0; p < parts; ++p) {
      norm_statistics(workers, centered, x.columns(p * cols, cols), rows_of(statistics.view(), p * rows, rows));
    }
    const Matrix mean_view = mean.view();
    const auto part = [&](std::int64_t p) {
      return NormTensors{x.columns(p * cols, cols), weight.columns(p * cols, cols), centered ? &mean_view : nullptr,
                         rstd.view()};
    };
    Values total(static_cast<std::size_t>(rows * numbers));
    for (std::int64_t p = 0; p < parts; ++p) {
      const Matrix shift = bias.columns(p * cols, cols);
      norm_forward_of_parts(workers, parts, kNormEps, part(p), centered ? &shift : nullptr, statistics.view(),
                            y.columns(p * cols, cols));
      norm_backward_sums(workers, part(p), dy.columns(p * cols, cols), sums.view());
      total = plus(total, sums.values());
    }
    sums.assign(total);
    for (std::int64_t p = 0; p < parts; ++p) {
      const Matrix shift = dbias.columns(p * cols, cols), extra = dresidual.columns(p * cols, cols);
      norm_backward_of_parts(workers, parts, part(p), dy.columns(p * cols, cols), sums.view(),
                             {dx.columns(p * cols, cols), dweight.columns(p * cols, cols), centered ? &shift : nullptr,
                              residual ? &extra : nullptr, accumulate});
    }
  }

  void run_whole_forward(Workers& workers) {
    const Matrix mean_view = mean.view(), shift = bias.view();
    norm_forward(workers, kNormEps, {x.view(), weight.view(), centered ? &mean_view : nullptr, rstd.view()},
                 centered ? &shift : nullptr, y.view());
  }
  void run_whole_backward(Workers& workers, const Matrix* residual, bool accumulate) {
    const Matrix mean_view = mean.view(), shift = dbias.view();
    norm_backward(workers, {x.view(), weight.view(), centered ? &mean_view : nullptr, rstd.view()}, dy.view(),
                  {dx.view(), dweight.view(), centered ? &shift : nullptr, residual, accumulate});
  }
  Scratch whole_scratch() const { return norm_backward_scratch(centered, shape.rows, shape.cols); }
  void run_whole(Workers& workers, bool residual, bool accumulate) {
    const Matrix extra = dresidual.view();
    run_whole_forward(workers);
    run_whole_backward(workers, residual ? &extra : nullptr, accumulate);
  }
};

/// All results in double precision. dx, dweight and dbias are added to.
struct NormReference {
  Values y, mean, rstd, dx, dweight, dbias;

  /// Without a mean and a bias unless `centered`.
  void compute(bool centered, const Values& x, const Values& weight, const Values& bias, const Values& dy) {
    const std::size_t cols = weight.size(), rows = x.size() / cols;
    const auto n = static_cast<double>(cols);
    y.resize(x.size()), mean.resize(rows), rstd.resize(rows);
    dx.resize(x.size()), dweight.resize(cols), dbias.resize(cols);
    for (std::size_t r = 0; r < rows; ++r) {
      const double* in = x.data() + r * cols;
      double center = 0, variance = 0, g_mean = 0, gx_mean = 0;
      for (std::size_t c = 0; centered && c < cols; ++c) center += in[c] / n;
      for (std::size_t c = 0; c < cols; ++c) variance += (in[c] - center) * (in[c] - center) / n;
      const double scale = 1.0 / std::sqrt(variance + static_cast<double>(kNormEps));
      mean[r] = center, rstd[r] = scale;
      for (std::size_t c = 0; c < cols; ++c) {
        const double normal = (in[c] - center) * scale, d = dy[r * cols + c];
        y[r * cols + c] = normal * weight[c] + (centered ? bias[c] : 0.0);
        g_mean += centered ? d * weight[c] / n : 0.0;
        gx_mean += d * weight[c] * normal / n;
        dweight[c] += d * normal;
        dbias[c] += d;
      }
      for (std::size_t c = 0; c < cols; ++c) {
        const double normal = (in[c] - center) * scale;
        dx[r * cols + c] += scale * (dy[r * cols + c] * weight[c] - g_mean - normal * gx_mean);
      }
    }
  }
};

inline NormReference in_double(NormCase& norm, bool residual, bool accumulate) {
  NormReference result;
  if (accumulate) result.dweight = norm.dweight.values(), result.dbias = norm.dbias.values();
  if (residual) result.dx = norm.dresidual.values();
  result.compute(norm.centered, norm.x.values(), norm.weight.values(), norm.bias.values(), norm.dy.values());
  return result;
}

inline void expect_agreement(NormCase& norm, const NormReference& expected) {
  const Tolerance rounding = tolerance_of(norm.x.view().dtype);
  expect_close(norm.y.values(), expected.y, rounding, "y");
  expect_close(norm.mean.values(), expected.mean, {1e-5, 1e-6}, "mean");
  expect_close(norm.rstd.values(), expected.rstd, {1e-5, 1e-6}, "rstd");
  expect_close(norm.dx.values(), expected.dx, rounding, "dx");
  expect_close(norm.dweight.values(), expected.dweight, {1e-5, 1e-4}, "dweight");
  if (norm.centered) expect_close(norm.dbias.values(), expected.dbias, {1e-5, 1e-4}, "dbias");
}

/// Tests of layer norms and RMS norms in both types.
class NormKinds : public ::testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  bool centered() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
};
inline auto norm_kinds() {
  return ::testing::Combine(::testing::Bool(), both_float_types());
}
inline std::string norm_kind_name(const ::testing::TestParamInfo<std::tuple<bool, DType>>& info) {
  return (std::get<0>(info.param) ? "layer_norm_" : "rms_norm_") + std::string(to_string(std::get<1>(info.param)));
}

}  // namespace weft::cpu::testing
