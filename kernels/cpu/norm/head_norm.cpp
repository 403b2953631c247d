// Root-mean-square normalisation of heads; see head_norm.h.
#include "kernels/cpu/norm/head_norm.h"

#include <cmath>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/column_sums.h"
#include "kernels/cpu/norm/rms_row.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

void head_norm_forward(Workers& workers, float eps, std::int64_t heads, const Matrix& x, const Matrix& weight,
                       const Matrix& y, const Matrix& rstd) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t dim = x.cols / heads;
    for_rows(workers, x.rows, x.cols, [&](std::int64_t row) {
      for (std::int64_t head = 0; head < heads; ++head) {
        const T* in = elements<T>(x, row) + head * dim;
        const float squares = sum_of(
            dim, [](Floats v) { return v * v; }, in);
        const float s = 1.0F / std::sqrt(squares / static_cast<float>(dim) + eps);
        transform(
            dim, elements<T>(y, row) + head * dim, [&](Floats v, Floats w) { return v * s * w; }, in,
            static_cast<const T*>(elements<T>(weight)));
        rstd.f32()[row * heads + head] = s;
      }
    });
  };
  with_element_type(run, x, weight, y);
}

void head_norm_backward(Workers& workers, std::int64_t heads, const Matrix& x, const Matrix& weight, const Matrix& rstd,
                        const Matrix& dy, const HeadNormGradients& gradients) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t dim = x.cols / heads;
    const T* w = elements<T>(weight);
    ColumnSums<T> sums(workers, x.rows, dim, 1);
    sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
      for (std::int64_t row = first; row < end; ++row) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const T* in = elements<T>(x, row) + head * dim;
          const T* dout = elements<T>(dy, row) + head * dim;
          const float s = rstd.f32()[row * heads + head];
          const float slope = s * accumulate_rms_row(dim, in, dout, w, s, partial) / static_cast<float>(dim);
          transform(
              dim, elements<T>(gradients.dx, row) + head * dim,
              [&](Floats value, Floats d, Floats scale) { return s * (d * scale - value * slope); }, in, dout, w);
        }
      }
    });
    sums.combine(0, gradients.dweight.f32(), gradients.accumulate);
  };
  with_element_type(run, x, weight, dy, gradients.dx);
}

Scratch head_norm_backward_scratch(std::int64_t rows, std::int64_t head_dim) {
  return column_sums_scratch(rows, head_dim, 1);
}

}  // namespace weft::cpu
