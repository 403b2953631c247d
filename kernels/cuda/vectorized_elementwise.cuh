// The pieces that a thread of an elementwise kernel processes: 16 bytes, or one element if rows aren't aligned. Kernels
// load several pieces before they store any, so that loads that might alias the stores are in flight together.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// Number of elements in 16 bytes.
template <class T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

/// kWidth = 1 or kWide<T> adjacent elements in their memory format; kWide<T> elements must be 16-byte aligned.
template <class T, int kWidth>
using Raw = std::conditional_t<kWidth == 1, T, uint4>;

template <class T, int kWidth>
__device__ inline Raw<T, kWidth> fetch(const T* from) {
  return *reinterpret_cast<const Raw<T, kWidth>*>(from);
}

template <class T, int kWidth>
__device__ inline void unpack(const Raw<T, kWidth>& raw, float (&to)[kWidth]) {
  if constexpr (kWidth == 1) {
    to[0] = to_float(raw);
  } else {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kWidth == 4) {
        to[i] = __uint_as_float(words[i]);
      } else {
        to[2 * i] = __uint_as_float(words[i] << 16);
        to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
      }
    }
  }
}

/// Rounds and stores a piece.
template <class T, int kWidth>
__device__ inline void put(T* to, const float (&from)[kWidth]) {
  if constexpr (kWidth == 1) {
    *to = from_float<T>(from[0]);
  } else if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  } else {
    store8(to, from);
  }
}

/// Row and piece within the row, for piece `item` of a matrix with `per_row` pieces a row.
struct Place {
  std::int64_t row, piece;
};
__device__ inline Place place_of(std::int64_t item, std::int64_t per_row) {
  if (item < per_row) return {0, item};
  if (((item | per_row) >> 32) == 0) {  // a 64-bit division costs as much as a piece's arithmetic
    const auto small = static_cast<std::uint32_t>(item), divisor = static_cast<std::uint32_t>(per_row);
    const std::uint32_t row = small / divisor;
    return {row, small - row * divisor};
  }
  return {item / per_row, item % per_row};
}

__device__ inline void report(Fault* fault, Fault what) {
  if (fault != nullptr) *fault = what;
}

/// Calls `body` with a std::integral_constant of the width of T's pieces.
template <class T, class Body>
void with_width(bool vectors, const Body& body) {
  if (vectors) {
    body(std::integral_constant<int, kWide<T>>{});
  } else {
    body(std::integral_constant<int, 1>{});
  }
}

inline constexpr int kElementwiseThreads = 256;

/// The rows that an elementwise kernel reads or writes.
template <class T>
struct Stream {
  T* data;
  std::int64_t stride;
};

template <class T, int kIn, int kOut>
struct Streams {
  Stream<const T> in[kIn];
  Stream<T> out[kOut];
};

/// outputs = f(inputs) element by element; an output may be an input. `per_row` and `items` count pieces.
template <class T, int kWidth, int kIn, int kOut, class F>
__global__ void __launch_bounds__(kElementwiseThreads)
    transform_kernel(Streams<T, kIn, kOut> streams, std::int64_t per_row, std::int64_t items, F f) {
  constexpr int kUnroll = 2;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kElementwiseThreads * kUnroll) + threadIdx.x;
  Place places[kUnroll];
  Raw<T, kWidth> raw[kUnroll][kIn];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t item = first + u * kElementwiseThreads;
    if (item >= items) continue;
    places[u] = place_of(item, per_row);
#pragma unroll
    for (int k = 0; k < kIn; ++k) {
      raw[u][k] =
          fetch<T, kWidth>(streams.in[k].data + places[u].row * streams.in[k].stride + places[u].piece * kWidth);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kElementwiseThreads >= items) continue;
    float values[kIn][kWidth], results[kOut][kWidth];
#pragma unroll
    for (int k = 0; k < kIn; ++k) unpack<T, kWidth>(raw[u][k], values[k]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      float in[kIn], out[kOut];
#pragma unroll
      for (int k = 0; k < kIn; ++k) in[k] = values[k][i];
      f(in, out);
#pragma unroll
      for (int k = 0; k < kOut; ++k) results[k][i] = out[k];
    }
#pragma unroll
    for (int k = 0; k < kOut; ++k) {
      put<T, kWidth>(streams.out[k].data + places[u].row * streams.out[k].stride + places[u].piece * kWidth,
                     results[k]);
    }
  }
}

/// Launches the kernel on rows × cols elements. F has operator()(const float (&in)[kIn], float (&out)[kOut]) on the
/// device.
template <class T, int kIn, int kOut, class F>
void transform(const Launch& launch, const char* name, std::int64_t rows, std::int64_t cols,
               const Streams<T, kIn, kOut>& streams, const F& f) {
  if (rows == 0 || cols == 0) return;
  const auto aligned = [](const auto& stream) {
    return stream.stride % kVector == 0 && reinterpret_cast<std::uintptr_t>(stream.data) % 16 == 0;
  };
  bool vectors = cols % kVector == 0;
  for (const auto& stream : streams.in) vectors = vectors && aligned(stream);
  for (const auto& stream : streams.out) vectors = vectors && aligned(stream);
  with_width<T>(vectors, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const std::int64_t per_row = cols / kWidth, items = rows * per_row;
    start(name, launch, transform_kernel<T, kWidth, kIn, kOut, F>, blocks_for(items, 2 * kElementwiseThreads),
          kElementwiseThreads, 0, streams, per_row, items, f);
  });
}

/// Throws std::logic_error unless all matrices have the first one's dtype: the builder never mixes dtypes.
template <class... Others>
void require_one_type(const Matrix& first, const Others&... others) {
  if (((others.dtype != first.dtype) || ...)) throw std::logic_error("a CUDA kernel's arguments differ in dtype");
}

/// The first element of a matrix of T.
template <class T>
T* data_of(const Matrix& matrix) {
  return static_cast<T*>(matrix.data);
}

/// A whole matrix as a stream.
template <class T>
Stream<T> stream_of(const Matrix& matrix) {
  return {static_cast<T*>(matrix.data), matrix.row_stride};
}

}  // namespace weft::cuda
