// Root-mean-square normalisation; see rms_norm.h.
#include "kernels/cpu/rms_norm.h"

#include <cmath>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

void rms_norm_forward(Workers& workers, float eps, const Matrix& x, const Matrix& weight, const Matrix& y,
                      const Matrix& rstd) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    const T* w = elements<T>(weight);
    for_rows(workers, x.rows, cols, [&](std::int64_t row) {
      const T* in = elements<T>(x, row);
      T* out = elements<T>(y, row);
      const float squares = sum_vectors(cols, [&](std::int64_t i, auto lanes) {
        const Floats v = lanes.load(in + i);
        return v * v;
      });
      const float s = 1.0F / std::sqrt(squares / static_cast<float>(cols) + eps);
      for_vectors(
          cols, [&](std::int64_t i, auto lanes) { lanes.store(out + i, lanes.load(in + i) * s * lanes.load(w + i)); });
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
    ColumnSums sums(workers, x.rows, cols, 1);
    sums.accumulate([&](std::int64_t row, float* dweight) {
      const T* in = elements<T>(x, row);
      const T* dout = elements<T>(dy, row);
      const T* extra = gradients.dresidual != nullptr ? elements<T>(residual, row) : nullptr;
      T* dx = elements<T>(gradients.dx, row);
      const float s = rstd.f32()[row];
      const float gx_mean = sum_vectors(cols,
                                        [&](std::int64_t i, auto lanes) {
                                          const Floats d_normal = lanes.load(dout + i) * (lanes.load(in + i) * s);
                                          lanes.store(dweight + i, lanes.load(dweight + i) + d_normal);
                                          return d_normal * lanes.load(w + i);
                                        }) /
                            static_cast<float>(cols);
      for_vectors(cols, [&](std::int64_t i, auto lanes) {
        const Floats normal = lanes.load(in + i) * s;
        Floats gradient = s * (lanes.load(dout + i) * lanes.load(w + i) - normal * gx_mean);
        if (extra != nullptr) gradient += lanes.load(extra + i);
        lanes.store(dx + i, gradient);
      });
    });
    sums.combine(0, gradients.dweight.f32(), gradients.accumulate);
  };
  with_element_type(run, x, weight, dy, gradients.dx, residual);
}

Scratch rms_norm_backward_scratch(std::int64_t rows, std::int64_t cols) {
  return ColumnSums::scratch(rows, cols, 1);
}

}  // namespace weft::cpu
