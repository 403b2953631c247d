// The gradient of a bias; see bias_gradient.h.
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/column_sums.cuh"
#include "kernels/cuda/gemm/bias_gradient.h"
#include "kernels/cuda/vector_access.cuh"

namespace weft::cuda {
namespace {

template <class T>
struct Elements {
  const T* data;
  std::int64_t row_stride;

  template <int kWidth>
  __device__ void operator()(std::int64_t row, int column, float (&totals)[1][kWidth]) const {
    float values[kWidth];
    load(data + row * row_stride + column, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) totals[0][i] += values[i];
  }
};

}  // namespace

void bias_gradient(const Launch& launch, const Matrix& dy, const Matrix& db, bool accumulate) {
  auto* partials = reinterpret_cast<float*>(launch.scratch);
  with_float_type(dy.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const Elements<T> elements{static_cast<const T*>(dy.data), dy.row_stride};
    if (vectorizable(dy)) {
      column_sums<kVector, 1>(launch, elements, dy.rows, dy.cols, partials, db.f32(), nullptr, accumulate);
    } else {
      column_sums<1, 1>(launch, elements, dy.rows, dy.cols, partials, db.f32(), nullptr, accumulate);
    }
  });
}

std::int64_t bias_gradient_scratch_bytes(std::int64_t rows, std::int64_t cols) {
  return partial_bytes(column_sum_chunks(rows, cols).count, 1, cols);
}

}  // namespace weft::cuda
