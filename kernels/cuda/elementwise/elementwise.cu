// Add, scale and row selection; see elementwise.h.
#include "kernels/cpu/chunks.h"
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
