// Add, scale, zero, cast, bias gradient and row selection; see elementwise.h.
#include "kernels/cpu/chunks.h"
#include "kernels/cuda/elementwise/column_sums.cuh"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
namespace {

struct SumOfTwo {
  __device__ void operator()(const float (&in)[2], float (&out)[1]) const { out[0] = in[0] + in[1]; }
};

struct Multiple {
  float factor;
  __device__ void operator()(const float (&in)[1], float (&out)[1]) const { out[0] = factor * in[0]; }
};

/// Zero whatever is read, a NaN too.
struct Nothing {
  __device__ void operator()(const float (&)[1], float (&out)[1]) const { out[0] = 0.0F; }
};

template <int kWidth, class From, class To>
__global__ void __launch_bounds__(kElementwiseThreads)
    cast_kernel(const From* x, std::int64_t x_stride, To* out, std::int64_t out_stride, const Items items,
                std::int64_t count) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  if (item >= count) return;
  visit<kWidth>(items, item, [&](auto width, std::int64_t row, std::int64_t column) {
    float values[decltype(width)::value];
    load(x + row * x_stride + column, values);
    store(out + row * out_stride + column, values);
  });
}

// A bias's gradient; see column_sums.cuh.
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

template <class From, class To>
__global__ void select_row_kernel(const From* x, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                                  const std::int64_t* index, To* out) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  const std::int64_t row = (*index % rows + rows) % rows;
  out[col] = from_float<To>(to_float(x[row * stride + col]));
}

}  // namespace

void add(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& out) {
  const auto views = cpu::common_shape(a, b, out);
  transform(launch, "add", std::array{views[0], views[1]}, std::array{views[2]}, SumOfTwo{});
}

void scale(const Launch& launch, const Matrix& x, float factor, const Matrix& out) {
  const auto views = cpu::common_shape(x, out);
  transform(launch, "scale", std::array{views[0]}, std::array{views[1]}, Multiple{factor});
}

void zero(const Launch& launch, const Matrix& out) {
  transform(launch, "zero", std::array{out}, std::array{out}, Nothing{});
}

void cast(const Launch& launch, const Matrix& x, const Matrix& out) {
  const auto views = cpu::common_shape(x, out);
  if (cpu::count(views[0]) == 0) return;
  with_float_type(x.dtype, [&](auto* from_type) {
    with_float_type(out.dtype, [&](auto* to_type) {
      using From = std::remove_pointer_t<decltype(from_type)>;
      using To = std::remove_pointer_t<decltype(to_type)>;
      constexpr int kWidth = 16 / sizeof(To);  // consecutive threads store to adjacent addresses
      const bool wide = loads_vectors(views[0], kWidth) && loads_vectors(views[1], kWidth);
      const Items items = items_of(views[0].rows, views[0].cols, kWidth, wide);
      start("cast", launch, cast_kernel<kWidth, From, To>, blocks_for(items.count(), kElementwiseThreads),
            kElementwiseThreads, 0, static_cast<const From*>(views[0].data), views[0].row_stride,
            static_cast<To*>(views[1].data), views[1].row_stride, items, items.count());
    });
  });
}

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

void select_row(const Launch& launch, const Matrix& x, const std::int64_t* index, const Matrix& out) {
  if (x.rows == 0 || x.cols == 0) return;
  with_float_type(x.dtype, [&]<class From>(From*) {
    with_float_type(out.dtype, [&]<class To>(To*) {
      start("select_row", launch, select_row_kernel<From, To>, blocks_for(x.cols, kElementwiseThreads),
            kElementwiseThreads, 0, data_of<const From>(x), x.rows, x.cols, x.row_stride, index, data_of<To>(out));
    });
  });
}

}  // namespace weft::cuda
