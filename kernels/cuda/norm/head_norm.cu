// Root-mean-square normalisation of heads; see norm.h. A warp takes a head of a row: heads are short.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/column_sums.cuh"
#include "kernels/cuda/items.cuh"
#include "kernels/cuda/norm/norm.h"
#include "kernels/cuda/norm/norm_rows.cuh"

namespace weft::cuda {
namespace {

constexpr int kHeadThreads = 256, kHeadsOfBlock = kHeadThreads / kWarp;

// The heads of a matrix's rows, counted through all rows.
template <class T>
struct HeadsOfRows {
  Stream<T> rows;
  int heads, dim;

  __device__ T* at(std::int64_t index) const {
    const Place place = place_of(index, heads);
    return rows.data + place.row * rows.stride + place.piece * dim;
  }
};

template <class T>
__global__ void __launch_bounds__(kHeadThreads)
    head_norm_kernel(HeadsOfRows<const T> x, const T* weight, HeadsOfRows<T> y, float* rstd, float eps,
                     std::int64_t count) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kHeadsOfBlock + threadIdx.x / kWarp;
  if (index >= count) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* from = x.at(index);
  float squares = 0.0F;
  for (int i = lane; i < x.dim; i += kWarp) squares += to_float(from[i]) * to_float(from[i]);
  const float s = rsqrtf(warp_sum(squares) / static_cast<float>(x.dim) + eps);
  T* to = y.at(index);
  for (int i = lane; i < x.dim; i += kWarp) to[i] = from_float<T>(to_float(from[i]) * s * to_float(weight[i]));
  if (lane == 0) rstd[index] = s;
}

template <class T>
__global__ void __launch_bounds__(kHeadThreads)
    head_norm_dx_kernel(HeadsOfRows<const T> x, const T* weight, const float* rstd, HeadsOfRows<const T> dy,
                        HeadsOfRows<T> dx, std::int64_t count) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kHeadsOfBlock + threadIdx.x / kWarp;
  if (index >= count) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T *values = x.at(index), *dout = dy.at(index);
  const float s = rstd[index];
  float sum = 0.0F;
  for (int i = lane; i < x.dim; i += kWarp) {
    sum += to_float(dout[i]) * to_float(weight[i]) * (to_float(values[i]) * s);
  }
  const float slope = s * warp_sum(sum) / static_cast<float>(x.dim);
  T* to = dx.at(index);
  for (int i = lane; i < x.dim; i += kWarp) {
    to[i] = from_float<T>(s * (to_float(dout[i]) * to_float(weight[i]) - to_float(values[i]) * slope));
  }
}

// dweight; see column_sums.cuh. A row here is a head of a row.
template <class T>
struct HeadWeightTerms {
  HeadsOfRows<const T> x, dy;
  const float* rstd;

  template <int kWidth>
  __device__ void operator()(std::int64_t index, int column, float (&totals)[1][kWidth]) const {
    static_assert(kWidth == 1);
    totals[0][0] += to_float(dy.at(index)[column]) * (to_float(x.at(index)[column]) * rstd[index]);
  }
};

template <class T>
HeadsOfRows<T> heads_of(const Matrix& matrix, std::int64_t heads) {
  return {stream_of<T>(matrix), static_cast<int>(heads), static_cast<int>(matrix.cols / heads)};
}

}  // namespace

void head_norm_forward(const Launch& launch, float eps, std::int64_t heads, const Matrix& x, const Matrix& weight,
                       const Matrix& y, const Matrix& rstd) {
  require_one_type(x, weight, y);
  const std::int64_t count = x.rows * heads;
  if (count == 0) return;
  with_float_type(x.dtype, [&]<class T>(T*) {
    start("head_norm", launch, head_norm_kernel<T>, blocks_for(count, kHeadsOfBlock), kHeadThreads, 0,
          heads_of<const T>(x, heads), static_cast<const T*>(weight.data), heads_of<T>(y, heads), rstd.f32(), eps,
          count);
  });
}

void head_norm_backward(const Launch& launch, std::int64_t heads, const Matrix& x, const Matrix& weight,
                        const Matrix& rstd, const Matrix& dy, const HeadNormGradients& gradients) {
  require_one_type(x, weight, dy, gradients.dx);
  const std::int64_t count = x.rows * heads;
  with_float_type(x.dtype, [&]<class T>(T*) {
    const HeadsOfRows<const T> values = heads_of<const T>(x, heads), dout = heads_of<const T>(dy, heads);
    // The column sums come first, because dx may overwrite dy.
    column_sums<1, 1>(launch, HeadWeightTerms<T>{values, dout, rstd.f32()}, count, values.dim,
                      reinterpret_cast<float*>(launch.scratch), gradients.dweight.f32(), nullptr, gradients.accumulate);
    if (count == 0) return;
    start("head_norm_dx", launch, head_norm_dx_kernel<T>, blocks_for(count, kHeadsOfBlock), kHeadThreads, 0, values,
          static_cast<const T*>(weight.data), rstd.f32(), dout, heads_of<T>(gradients.dx, heads), count);
  });
}

std::int64_t head_norm_backward_scratch_bytes(std::int64_t rows, std::int64_t heads, std::int64_t head_dim) {
  return partial_bytes(column_sum_chunks(rows * heads, head_dim).count, 1, head_dim);
}

}  // namespace weft::cuda
