// Root-mean-square normalisation; see rms_norm.h.
#include "kernels/cpu/norm/rms_norm.h"

#include <cmath>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/column_sums.h"
#include "kernels/cpu/norm/rms_row.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

void rms_norm_forward(Workers& workers, float eps, const Matrix& x, const Matrix& weight, const Matrix& y,
                      const Matrix& rstd) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    for_rows(workers, x.rows, cols, [&](std::int64_t row) {
      const T* in = elements<T>(x, row);
      const float squares = sum_of(
          cols, [](Floats v) { return v * v; }, Fetching<T>{in, elements<T>(y, row)});
      const float s = 1.0F / std::sqrt(squares / static_cast<float>(cols) + eps);
      transform(
          cols, elements<T>(y, row), [&](Floats v, Floats w) { return v * s * w; }, Fetching<T>{in, in + x.row_stride},
          elements<T>(weight));
      rstd.f32()[row] = s;
    });
  };
  with_element_type(run, x, weight, y);
}

void rms_norm_backward(Workers& workers, const Matrix& x, const Matrix& weight, const Matrix& rstd, const Matrix& dy,
                       const RmsNormGradients& gradients) {
  const Matrix& residual = gradients.dresidual != nullptr ? *gradients.dresidual : dy;
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    const T* w = elements<T>(weight);
    ColumnSums<T> sums(workers, x.rows, cols, 1);
    sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
      for (std::int64_t row = first; row < end; ++row) {
        const T* in = elements<T>(x, row);
        const T* dout = elements<T>(dy, row);
        T* dx = elements<T>(gradients.dx, row);
        const float s = rstd.f32()[row];
        const float gx_mean = accumulate_rms_row(cols, in, dout, w, s, partial) / static_cast<float>(cols);
        const float slope = s * gx_mean;
        const auto gradient = [&](Floats value, Floats d, Floats scale) { return s * (d * scale - value * slope); };
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
  };
  with_element_type(run, x, weight, dy, gradients.dx, residual);
}

Scratch rms_norm_backward_scratch(std::int64_t rows, std::int64_t cols) {
  return column_sums_scratch(rows, cols, 1);
}

}  // namespace weft::cpu
