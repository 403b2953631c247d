// Biases and windows of columns; see columns.h.
#include "kernels/cuda/elementwise/columns.h"
#include "kernels/cuda/vectorized_elementwise.cuh"

namespace weft::cuda {
namespace {

constexpr int kUnroll = 2;  // pieces of a thread, all loaded before any is stored

template <class T, int kWidth>
__global__ void __launch_bounds__(kElementwiseThreads)
    add_bias_kernel(T* y, std::int64_t stride, const T* bias, const std::int64_t* coordinate, std::int64_t per_row,
                    std::int64_t items) {
  if (*coordinate != 0) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kElementwiseThreads * kUnroll) + threadIdx.x;
  T* places[kUnroll] = {};
  Raw<T, kWidth> raw[kUnroll], raw_bias[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t item = first + u * kElementwiseThreads;
    if (item >= items) continue;
    const Place place = place_of(item, per_row);
    places[u] = y + place.row * stride + place.piece * kWidth;
    raw[u] = fetch<T, kWidth>(places[u]);
    raw_bias[u] = fetch<T, kWidth>(bias + place.piece * kWidth);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (places[u] == nullptr) continue;
    float values[kWidth], more[kWidth];
    unpack<T, kWidth>(raw[u], values);
    unpack<T, kWidth>(raw_bias[u], more);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += more[i];
    put<T, kWidth>(places[u], values);
  }
}

// Copies bits. `narrow` and `wide` are the column counts of the window and of the whole matrix.
template <class T, int kWidth, bool kTake>
__global__ void __launch_bounds__(kElementwiseThreads)
    window_kernel(Stream<const T> x, Stream<T> out, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                  std::int64_t narrow, std::int64_t wide, std::int64_t per_row, std::int64_t items) {
  const std::int64_t window = *coordinate / ranks_per_window;
  if (window < 0 || (window + 1) * narrow > wide) return;
  const std::int64_t begin = window * narrow;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kElementwiseThreads * kUnroll) + threadIdx.x;
  Raw<T, kWidth> raw[kUnroll];
  T* places[kUnroll] = {};
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t item = first + u * kElementwiseThreads;
    if (item >= items) continue;
    const Place place = place_of(item, per_row);
    const std::int64_t col = place.piece * kWidth;
    places[u] = out.data + place.row * out.stride + col;
    raw[u] = Raw<T, kWidth>{};
    if constexpr (kTake) {
      raw[u] = fetch<T, kWidth>(x.data + place.row * x.stride + begin + col);
    } else if (col >= begin && col < begin + narrow) {
      raw[u] = fetch<T, kWidth>(x.data + place.row * x.stride + col - begin);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (places[u] != nullptr) *reinterpret_cast<Raw<T, kWidth>*>(places[u]) = raw[u];
  }
}

template <bool kTake>
void window(const Launch& launch, const char* name, const Matrix& x, const std::int64_t* coordinate,
            std::int64_t ranks_per_window, const Matrix& out) {
  require_one_type(x, out);
  if (out.rows == 0 || out.cols == 0) return;
  const std::int64_t narrow = kTake ? out.cols : x.cols, wide = kTake ? x.cols : out.cols;
  with_float_type(x.dtype, [&]<class T>(T*) {
    with_width<T>(vectorizable(x) && vectorizable(out), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const std::int64_t per_row = out.cols / kWidth, items = out.rows * per_row;
      start(name, launch, window_kernel<T, kWidth, kTake>, blocks_for(items, kUnroll * kElementwiseThreads),
            kElementwiseThreads, 0, stream_of<const T>(x), stream_of<T>(out), coordinate, ranks_per_window, narrow,
            wide, per_row, items);
    });
  });
}

}  // namespace

void add_bias(const Launch& launch, const Matrix& y, const Matrix& bias, const std::int64_t* coordinate) {
  require_one_type(y, bias);
  if (y.rows == 0 || y.cols == 0) return;
  const Matrix bias_row{bias.data, 1, y.cols, y.cols, bias.dtype};
  with_float_type(y.dtype, [&]<class T>(T*) {
    with_width<T>(vectorizable(y) && vectorizable(bias_row), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const std::int64_t per_row = y.cols / kWidth, items = y.rows * per_row;
      start("add_bias", launch, add_bias_kernel<T, kWidth>, blocks_for(items, kUnroll * kElementwiseThreads),
            kElementwiseThreads, 0, data_of<T>(y), y.row_stride, data_of<const T>(bias), coordinate, per_row, items);
    });
  });
}

void take_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                  const Matrix& out) {
  window<true>(launch, "take_columns", x, coordinate, ranks_per_window, out);
}

void put_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                 const Matrix& out) {
  window<false>(launch, "put_columns", x, coordinate, ranks_per_window, out);
}

}  // namespace weft::cuda
