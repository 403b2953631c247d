// Layer normalisation; see layer_norm.h.
#include "kernels/cpu/norm/layer_norm.h"

#include <cmath>
#include <utility>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/column_sums.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

void layer_norm_forward(Workers& workers, float eps, const Matrix& x, const Matrix& weight, const Matrix& bias,
                        const Matrix& y, const Matrix& mean, const Matrix& rstd) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    const float inverse_cols = 1.0F / static_cast<float>(cols);
    for_rows(workers, x.rows, cols, [&](std::int64_t row) {
      const T* in = elements<T>(x, row);
      const float m = sum_of(
                          cols, [](Floats v) { return v; }, Fetching<T>{in, elements<T>(y, row)}) *
                      inverse_cols;
      const float variance =
          sum_of(
              cols, [&](Floats v) { return (v - m) * (v - m); }, Fetching<T>{in, in + x.row_stride}) *
          inverse_cols;
      const float s = 1.0F / std::sqrt(variance + eps);
      transform(
          cols, elements<T>(y, row), [&](Floats v, Floats w, Floats b) { return (v - m) * s * w + b; }, in,
          elements<T>(weight), elements<T>(bias));
      mean.f32()[row] = m;
      rstd.f32()[row] = s;
    });
  };
  with_element_type(run, x, weight, bias, y);
}

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
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= cols; i += 2 * kLanes) {
    const Pair value = load_pair(x + i), d = load_pair(dy + i), w = load_pair(weight + i);
    step(i, 0, value.first, d.first, w.first);
    step(i + kLanes, 1, value.second, d.second, w.second);
  }
  const std::int64_t rest = i;
  for_vectors(cols - rest, [&](std::int64_t j, auto lanes) {
    step(rest + j, 0, lanes.load(x + rest + j), lanes.load(dy + rest + j), lanes.load(weight + rest + j));
  });
  return {sum(g_sums[0] + g_sums[1]), sum(gx_sums[0] + gx_sums[1])};
}

}  // namespace

void layer_norm_backward(Workers& workers, const Matrix& x, const Matrix& weight, const Matrix& mean,
                         const Matrix& rstd, const Matrix& dy, const LayerNormGradients& gradients) {
  const Matrix& residual = gradients.dresidual != nullptr ? *gradients.dresidual : dy;
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    const T* w = elements<T>(weight);
    ColumnSums<T> sums(workers, x.rows, cols, 2);
    sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
      for (std::int64_t row = first; row < end; ++row) {
        const T* in = elements<T>(x, row);
        const T* dout = elements<T>(dy, row);
        T* dx = elements<T>(gradients.dx, row);
        const float m = mean.f32()[row], s = rstd.f32()[row];
        const auto [g_total, gx_total] = accumulate_row(cols, in, dout, w, m, s, partial, partial + sums.stride());
        const float g_mean = g_total / static_cast<float>(cols), gx_mean = gx_total / static_cast<float>(cols);
        const auto gradient = [&](Floats value, Floats d, Floats scale) {
          return s * (d * scale - g_mean - (value - m) * s * gx_mean);
        };
        const Fetching<T> value{in, in + x.row_stride}, d{dout, dout + dy.row_stride};
        if (gradients.dresidual == nullptr) {
          transform(cols, dx, gradient, value, d, w);
        } else {
          transform(
              cols, dx, [&](Floats v, Floats g, Floats scale, Floats extra) { return gradient(v, g, scale) + extra; },
              value, d, w, static_cast<const T*>(elements<T>(residual, row)));
        }
      }
    });
    sums.combine(0, gradients.dweight.f32(), gradients.accumulate);
    sums.combine(1, gradients.dbias.f32(), gradients.accumulate);
  };
  with_element_type(run, x, weight, dy, gradients.dx, residual);
}

Scratch layer_norm_backward_scratch(std::int64_t rows, std::int64_t cols) {
  return column_sums_scratch(rows, cols, 2);
}

}  // namespace weft::cpu
