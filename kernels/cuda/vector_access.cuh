// Pieces of rows: some adjacent elements that a thread loads or stores at once, and what lets a matrix be accessed in
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/device.cuh"

namespace weft::cuda {

inline constexpr int kVector = 8;  // elements of the widest piece

/// kWidth adjacent elements as they are in memory, 2 to 32 bytes, moved by 16 bytes at the most. Their address must be
/// aligned to their size, or to 16 bytes.
template <class T, int kWidth>
struct Raw {
  static constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  using Widest = std::conditional_t<sizeof(T) == 4, float4, uint4>;
  using Word = std::conditional_t<kBytes >= 16, Widest, std::conditional_t<kBytes == 8, uint2, T>>;
  using Part = std::conditional_t<sizeof(T) == 4, float, std::uint32_t>;  // one float or two bf16
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));

  Word words[kWords];
};

template <int kWidth, class T>
__device__ inline Raw<T, kWidth> fetch(const T* from) {
  Raw<T, kWidth> raw;
#pragma unroll
  for (int i = 0; i < raw.kWords; ++i) raw.words[i] = reinterpret_cast<const typename Raw<T, kWidth>::Word*>(from)[i];
  return raw;
}

template <class T, int kWidth>
__device__ inline void store(T* to, const Raw<T, kWidth>& raw) {
#pragma unroll
  for (int i = 0; i < raw.kWords; ++i) reinterpret_cast<typename Raw<T, kWidth>::Word*>(to)[i] = raw.words[i];
}

template <class T, int kWidth>
__device__ inline void unpack(const Raw<T, kWidth>& raw, float (&to)[kWidth]) {
  if constexpr (kWidth == 1) {
    to[0] = to_float(raw.words[0]);
  } else {
    const auto* parts = reinterpret_cast<const typename Raw<T, kWidth>::Part*>(raw.words);
#pragma unroll
    for (int i = 0; i < raw.kBytes / 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        to[i] = parts[i];
      } else {
        to[2 * i] = __uint_as_float(parts[i] << 16);
        to[2 * i + 1] = __uint_as_float(parts[i] & 0xffff0000U);
      }
    }
  }
}

/// Rounds and stores a piece.
template <class T, int kWidth>
__device__ inline void store(T* to, const float (&from)[kWidth]) {
  Raw<T, kWidth> raw;
  if constexpr (kWidth == 1) {
    raw.words[0] = from_float<T>(from[0]);
  } else {
    auto* parts = reinterpret_cast<typename Raw<T, kWidth>::Part*>(raw.words);
#pragma unroll
    for (int i = 0; i < raw.kBytes / 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        parts[i] = from[i];
      } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
        parts[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
      }
    }
  }
  store(to, raw);
}

/// Loads a piece as fp32.
template <class T, int kWidth>
__device__ inline void load(const T* from, float (&to)[kWidth]) {
  unpack(fetch<kWidth>(from), to);
}

/// The rows of a matrix of T.
template <class T>
struct Stream {
  T* data;
  std::int64_t stride;

  __device__ T* at(std::int64_t row, std::int64_t column) const { return data + row * stride + column; }
};
template <class T>
Stream<T> stream_of(const Matrix& matrix) {
  return {static_cast<T*>(matrix.data), matrix.row_stride};
}
template <class T>
T* data_of(const Matrix& matrix) {
  return static_cast<T*>(matrix.data);
}

/// Whether vectors of `width` elements can be loaded from every row of `matrix`, beginning at its first column.
inline bool loads_vectors(const Matrix& matrix, int width) {
  const std::size_t alignment = std::min<std::size_t>(16, static_cast<std::size_t>(width) * size_of(matrix.dtype));
  return (matrix.rows <= 1 || matrix.row_stride % width == 0) &&
         reinterpret_cast<std::uintptr_t>(matrix.data) % alignment == 0;
}
/// Whether rows of `matrix` can be read and written eight elements at a time.
inline bool vectorizable(const Matrix& matrix) {
  return matrix.cols % kVector == 0 && matrix.row_stride % kVector == 0 &&
         reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0;
}

/// Throws std::logic_error unless all matrices have the first one's dtype: the builder never mixes dtypes.
template <class... Others>
void require_one_type(const Matrix& first, const Others&... others) {
  if (((others.dtype != first.dtype) || ...)) throw std::logic_error("a CUDA kernel's arguments differ in dtype");
}

/// The type of the elements, and the number of them in a piece.
template <class T, int kWidth>
struct Pieces {};

/// Calls body(Pieces<T, kWidth>{}) for matrices of one float dtype T: pieces of 16 bytes if `vectors`, else of one
/// element.
template <class Body>
void with_pieces(DType dtype, bool vectors, const Body& body) {
  with_float_type(dtype, [&]<class T>(T*) {
    vectors ? body(Pieces<T, 16 / static_cast<int>(sizeof(T))>{}) : body(Pieces<T, 1>{});
  });
}

}  // namespace weft::cuda
