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
  using Word =
      std::conditional_t<kWidth == 1, T,
                         std::conditional_t<sizeof(T) == 4, float4, std::conditional_t<kBytes == 8, uint2, uint4>>>;
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

/// The numbers of a word, or of two bf16.
template <class T>
__device__ inline void unpack_word(T word, float* to) {
  to[0] = to_float(word);
}
__device__ inline void unpack_word(const float4& word, float* to) {
  to[0] = word.x, to[1] = word.y, to[2] = word.z, to[3] = word.w;
}
__device__ inline void unpack_word(std::uint32_t two, float* to) {
  to[0] = __uint_as_float(two << 16);
  to[1] = __uint_as_float(two & 0xffff0000U);
}
__device__ inline void unpack_word(const uint2& word, float* to) {
  unpack_word(word.x, to), unpack_word(word.y, to + 2);
}
__device__ inline void unpack_word(const uint4& word, float* to) {
  unpack_word(word.x, to), unpack_word(word.y, to + 2), unpack_word(word.z, to + 4), unpack_word(word.w, to + 6);
}

template <class T, int kWidth>
__device__ inline void unpack(const Raw<T, kWidth>& raw, float (&to)[kWidth]) {
#pragma unroll
  for (int i = 0; i < raw.kWords; ++i) unpack_word(raw.words[i], to + i * (kWidth / raw.kWords));
}

/// Rounds and stores a piece.
template <class T, int kWidth>
__device__ inline void store(T* to, const float (&from)[kWidth]) {
  if constexpr (kWidth == 1) {
    *to = from_float<T>(from[0]);
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < kWidth; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
    }
  } else {
    Raw<T, kWidth> raw;
    auto* pairs = reinterpret_cast<std::uint32_t*>(raw.words);
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
      pairs[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
    store(to, raw);
  }
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
