// Loads and stores of the elements that a code path of a kernel processes at once, and the division of a matrix into
// such pieces for elementwise kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device.cuh"

namespace weft::cuda {

/// Loads kWidth adjacent elements as fp32; `from` must be aligned to their total size, at most 16 bytes.
template <class T>
__device__ inline void load(const T* from, float (&to)[1]) {
  to[0] = to_float(from[0]);
}
__device__ inline void load(const float* from, float (&to)[4]) {
  const float4 all = *reinterpret_cast<const float4*>(from);
  to[0] = all.x, to[1] = all.y, to[2] = all.z, to[3] = all.w;
}
__device__ inline void load(const __nv_bfloat16* from, float (&to)[4]) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  to[0] = __uint_as_float(bits.x << 16), to[1] = __uint_as_float(bits.x & 0xffff0000U);
  to[2] = __uint_as_float(bits.y << 16), to[3] = __uint_as_float(bits.y & 0xffff0000U);
}
template <class T>
__device__ inline void load(const T* from, float (&to)[8]) {
  load8(from, to);
}

template <class T>
__device__ inline void store(T* to, const float (&from)[1]) {
  to[0] = from_float<T>(from[0]);
}
__device__ inline void store(float* to, const float (&from)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}
__device__ inline void store(__nv_bfloat16* to, const float (&from)[4]) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(from[0], from[1]), high = __floats2bfloat162_rn(from[2], from[3]);
  *reinterpret_cast<uint2*>(to) =
      make_uint2(*reinterpret_cast<const std::uint32_t*>(&low), *reinterpret_cast<const std::uint32_t*>(&high));
}
template <class T>
__device__ inline void store(T* to, const float (&from)[8]) {
  store8(to, from);
}

/// rows × cols elements as items: in each row, `vectors` whole vectors, then the other elements one by one.
struct Items {
  std::int64_t rows, cols, vectors, per_row;

  std::int64_t count() const { return rows * per_row; }
};

/// Whether vectors of `width` elements can be loaded from every row of `matrix`, beginning at its first column.
inline bool loads_vectors(const Matrix& matrix, int width) {
  const std::size_t alignment = std::min<std::size_t>(16, static_cast<std::size_t>(width) * size_of(matrix.dtype));
  return (matrix.rows <= 1 || matrix.row_stride % width == 0) &&
         reinterpret_cast<std::uintptr_t>(matrix.data) % alignment == 0;
}

/// `wide`: whether vectors of `width` elements can be used.
inline Items items_of(std::int64_t rows, std::int64_t cols, int width, bool wide) {
  const std::int64_t vectors = wide ? cols / width : 0;
  return {rows, cols, vectors, vectors + cols - vectors * width};
}

/// Calls body(std::integral_constant<int, width>, row, first column) for one item.
template <int kWidth, class Body>
__device__ inline void visit(const Items& items, std::int64_t item, const Body& body) {
  std::int64_t row = 0, at = item;
  if (items.rows > 1) {
    row = item / items.per_row;
    at = item - row * items.per_row;
  }
  if (at < items.vectors) {
    body(std::integral_constant<int, kWidth>{}, row, at * kWidth);
  } else {
    body(std::integral_constant<int, 1>{}, row, at + items.vectors * (kWidth - 1));
  }
}

}  // namespace weft::cuda
