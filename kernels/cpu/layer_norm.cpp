// Layer normalisation; see layer_norm.h.
#include "kernels/cpu/layer_norm.h"

#include <cmath>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

void layer_norm_forward(Workers& workers, float eps, const Matrix& x, const Matrix& weight, const Matrix& bias,
                        const Matrix& y, const Matrix& mean, const Matrix& rstd) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    const T* w = elements<T>(weight);
    const T* b = elements<T>(bias);
    for_rows(workers, x.rows, cols, [&](std::int64_t row) {
      const T* in = elements<T>(x, row);
      T* out = elements<T>(y, row);
      const float inverse_cols = 1.0F / static_cast<float>(cols);
      const float m = sum_vectors(cols, [&](std::int64_t i, auto lanes) { return lanes.load(in + i); }) * inverse_cols;
      const float variance = sum_vectors(cols,
                                         [&](std::int64_t i, auto lanes) {
                                           const Floats d = lanes.fill(lanes.load(in + i), m) - m;
                                           return d * d;
                                         }) *
                             inverse_cols;
      const float s = 1.0F / std::sqrt(variance + eps);
      for_vectors(cols, [&](std::int64_t i, auto lanes) {
        lanes.store(out + i, (lanes.load(in + i) - m) * s * lanes.load(w + i) + lanes.load(b + i));
      });
      mean.f32()[row] = m;
      rstd.f32()[row] = s;
    });
  };
  with_element_type(run, x, weight, bias, y);
}

void layer_norm_backward(Workers& workers, const Matrix& x, const Matrix& weight, const Matrix& mean,
                         const Matrix& rstd, const Matrix& dy, const LayerNormGradients& gradients) {
  const Matrix& residual = gradients.dresidual != nullptr ? *gradients.dresidual : dy;
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    const T* w = elements<T>(weight);
    ColumnSums sums(workers, x.rows, cols, 2);
    sums.accumulate([&](std::int64_t row, float* partial) {
      const T* in = elements<T>(x, row);
      const T* dout = elements<T>(dy, row);
      const T* extra = gradients.dresidual != nullptr ? elements<T>(residual, row) : nullptr;
      T* dx = elements<T>(gradients.dx, row);
      const float m = mean.f32()[row], s = rstd.f32()[row];
      float* dweight = partial;
      float* dbias = partial + cols;
      Floats g_total{};
      const float gx_total = sum_vectors(cols, [&](std::int64_t i, auto lanes) {
        const Floats d = lanes.load(dout + i), normal = (lanes.load(in + i) - m) * s, g = d * lanes.load(w + i);
        lanes.store(dweight + i, lanes.load(dweight + i) + d * normal);
        lanes.store(dbias + i, lanes.load(dbias + i) + d);
        g_total += g;
        return g * normal;
      });
      const float g_mean = sum(g_total) / static_cast<float>(cols), gx_mean = gx_total / static_cast<float>(cols);
      for_vectors(cols, [&](std::int64_t i, auto lanes) {
        const Floats normal = (lanes.load(in + i) - m) * s, g = lanes.load(dout + i) * lanes.load(w + i);
        Floats gradient = s * (g - g_mean - normal * gx_mean);
        if (extra != nullptr) gradient += lanes.load(extra + i);
        lanes.store(dx + i, gradient);
      });
    });
    sums.combine(0, gradients.dweight.f32(), gradients.accumulate);
    sums.combine(1, gradients.dbias.f32(), gradients.accumulate);
  };
  with_element_type(run, x, weight, dy, gradients.dx, residual);
}

Scratch layer_norm_backward_scratch(std::int64_t rows, std::int64_t cols) {
  return ColumnSums::scratch(rows, cols, 2);
}

}  // namespace weft::cpu
