// Normalisation of whole rows; see norm.h.
#include "kernels/cpu/norm/norm.h"

#include <cmath>
#include <utility>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/column_sums.h"
#include "kernels/cpu/norm/rms_row.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// Adds one row to both column sums; returns Σ g and Σ g·x̂.
template <class T>
std::pair<float, float> accumulate_row(std::int64_t cols, const T* x, const T* dy, const T* weight, float mean,
                                       float rstd, float* dweight, float* dbias) {
  Floats g_sums[2] = {}, gx_sums[2] = {};
  const auto step = [&](std::int64_t i, int k, Floats value, Floats d, Floats w) {
    const Floats normal = (value - mean) * rstd, g = d * w;
    store(dweight + i, load(dweight + i) + d * normal);
    store(dbias + i, load(dbias + i) + d);
    g_sums[k] += g;
    gx_sums[k] += g * normal;
  };
  for_pairs(cols, step, x, dy, weight);
  return {sum(g_sums[0] + g_sums[1]), sum(gx_sums[0] + gx_sums[1])};
}

template <bool kCentered, class T>
void normalize_row(float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y, std::int64_t row) {
  const std::int64_t cols = norm.x.cols;
  const T *in = elements<T>(norm.x, row), *w = elements<T>(norm.weight);
  T* out = elements<T>(y, row);
  const Fetching<T> first{in, out}, second{in, in + norm.x.row_stride};
  float s = 0.0F;
  if constexpr (kCentered) {
    const float inverse_cols = 1.0F / static_cast<float>(cols);
    const float m = sum_of(
                        cols, [](Floats v) { return v; }, first) *
                    inverse_cols;
    const float variance = sum_of(
                               cols, [&](Floats v) { return (v - m) * (v - m); }, second) *
                           inverse_cols;
    s = 1.0F / std::sqrt(variance + eps);
    transform(
        cols, out, [&](Floats v, Floats scale, Floats b) { return (v - m) * s * scale + b; }, in, w,
        static_cast<const T*>(elements<T>(*bias)));
    norm.mean->f32()[row] = m;
  } else {
    const float squares = sum_of(
        cols, [](Floats v) { return v * v; }, first);
    s = 1.0F / std::sqrt(squares / static_cast<float>(cols) + eps);
    transform(
        cols, out, [&](Floats v, Floats scale) { return v * s * scale; }, second, w);
  }
  norm.rstd.f32()[row] = s;
}

// Adds the row to the column sums and writes its dx.
template <bool kCentered, class T>
void differentiate_row(const NormTensors& norm, const Matrix& dy, const NormGradients& gradients, std::int64_t row,
                       float* dweight, float* dbias) {
  const std::int64_t cols = norm.x.cols;
  const T *in = elements<T>(norm.x, row), *dout = elements<T>(dy, row), *w = elements<T>(norm.weight);
  const float s = norm.rstd.f32()[row];
  const auto write = [&](const auto& gradient) {
    T* dx = elements<T>(gradients.dx, row);
    const Fetching<T> value{in, in + norm.x.row_stride}, d{dout, dout + dy.row_stride};
    if (gradients.dresidual == nullptr) {
      transform(cols, dx, gradient, value, d, w);
    } else {
      transform(
          cols, dx, [&](Floats v, Floats g, Floats scale, Floats extra) { return gradient(v, g, scale) + extra; },
          value, d, w, static_cast<const T*>(elements<T>(*gradients.dresidual, row)));
    }
  };
  if constexpr (kCentered) {
    const float m = norm.mean->f32()[row];
    const auto [g_total, gx_total] = accumulate_row(cols, in, dout, w, m, s, dweight, dbias);
    const float g_mean = g_total / static_cast<float>(cols), gx_mean = gx_total / static_cast<float>(cols);
    write([&](Floats value, Floats d, Floats scale) { return s * (d * scale - g_mean - (value - m) * s * gx_mean); });
  } else {
    const float slope = s * (accumulate_rms_row(cols, in, dout, w, s, dweight) / static_cast<float>(cols));
    write([&](Floats value, Floats d, Floats scale) { return s * (d * scale - value * slope); });
  }
}

}  // namespace

void norm_forward(Workers& workers, float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_rows(workers, norm.x.rows, norm.x.cols, [&](std::int64_t row) {
      norm.mean != nullptr ? normalize_row<true, T>(eps, norm, bias, y, row)
                           : normalize_row<false, T>(eps, norm, bias, y, row);
    });
  };
  with_element_type(run, norm.x, norm.weight, bias != nullptr ? *bias : y, y);
}

void norm_backward(Workers& workers, const NormTensors& norm, const Matrix& dy, const NormGradients& gradients) {
  const bool centered = norm.mean != nullptr;
  const auto run = [&]<class T>(std::type_identity<T>) {
    ColumnSums<T> sums(workers, norm.x.rows, norm.x.cols, centered ? 2 : 1);
    sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
      for (std::int64_t row = first; row < end; ++row) {
        centered ? differentiate_row<true, T>(norm, dy, gradients, row, partial, partial + sums.stride())
                 : differentiate_row<false, T>(norm, dy, gradients, row, partial, nullptr);
      }
    });
    sums.combine(0, gradients.dweight.f32(), gradients.accumulate);
    if (centered) sums.combine(1, gradients.dbias->f32(), gradients.accumulate);
  };
  with_element_type(run, norm.x, norm.weight, dy, gradients.dx,
                    gradients.dresidual != nullptr ? *gradients.dresidual : dy);
}

Scratch norm_backward_scratch(bool centered, std::int64_t rows, std::int64_t cols) {
  return column_sums_scratch(rows, cols, centered ? 2 : 1);
}

}  // namespace weft::cpu
