// A warp's operations on tensor cores for bf16 attention: products of 16-row tiles in shared memory or in registers,
// and concurrent copies to shared memory. Fragment layouts: PTX ISA, mma.m16n8k16 and ldmatrix.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/warp_operations.cuh"

namespace weft::cuda {

/// Elements from one row of a tile in shared memory to the next. The same 16 bytes of eight rows are then in different
/// banks.
template <int kDim>
inline constexpr int kTileStride = kDim + 8;

/// A warp's 16·kM × kN numbers in the layout of m16n8k16. In row tile m and columns 8·n …, lane l has columns 2·(l mod
/// 4) and the next: of row l / 4 in [0] and [1], of row l / 4 + 8 in [2] and [3].
template <int kM, int kN>
using Accumulators = float[kM][kN / 8][4];

template <int kM, int kN>
__device__ inline void clear(float (&sums)[kM][kN][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0F;
    }
  }
}

/// products = a[16·kM, kDim]·b[8·kTiles, kDim]ᵀ, both in shared memory, rows kTileStride apart.
template <int kDim, int kM, int kTiles>
__device__ inline void multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float (&products)[kM][kTiles][4]) {
  static_assert(kTiles % 2 == 0 && kDim % 16 == 0);
  constexpr int kStride = kTileStride<kDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Lane l addresses row l mod 8 of the 8 × 8 matrix l / 8. Of a: rows 0-7, rows 8-15, then both for columns 8-15. Of
  // b, two column tiles of the product: its rows 0-7 for columns 0-7 and 8-15, then its rows 8-15.
  const __nv_bfloat16* a_lane = a + lane % 16 * kStride + lane / 16 * 8;
  const __nv_bfloat16* b_lane = b + (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
  clear(products);
#pragma unroll 2
  for (int d = 0; d < kDim; d += 16) {
    std::uint32_t left[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) load_matrices(left[m], a_lane + m * 16 * kStride + d);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      std::uint32_t right[4];
      load_matrices(right, b_lane + n * 8 * kStride + d);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add(products[m][n], left[m], right[0], right[1]);
        multiply_add(products[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

__device__ inline std::uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// sums[16·kM, kDim] += weights[16·kM, 8·kTiles]·rows[8·kTiles, kDim]. The weights, rounded to bf16, come from the
/// accumulators of an earlier product, whose layout is also that of a left operand.
template <int kDim, int kM, int kTiles>
__device__ inline void add_products(const float (&weights)[kM][kTiles][4], const __nv_bfloat16* rows,
                                    float (&sums)[kM][kDim / 8][4]) {
  static_assert(kTiles % 2 == 0 && kDim % 16 == 0);
  constexpr int kStride = kTileStride<kDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Matrices: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15; transposed, since operands need neighbours along
  // k.
  const __nv_bfloat16* rows_lane = rows + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kTiles; k += 2) {
    std::uint32_t left[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      left[m][0] = packed(weights[m][k][0], weights[m][k][1]);
      left[m][1] = packed(weights[m][k][2], weights[m][k][3]);
      left[m][2] = packed(weights[m][k + 1][0], weights[m][k + 1][1]);
      left[m][3] = packed(weights[m][k + 1][2], weights[m][k + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      std::uint32_t right[4];
      load_matrices_transposed(right, rows_lane + k * 8 * kStride + n * 8);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add(sums[m][n], left[m], right[0], right[1]);
        multiply_add(sums[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

/// Begins to copy kRows rows to shared memory, with zeros for rows from `present` on, by all kThreads threads.
template <int kRows, int kDim, int kThreads>
__device__ inline void copy_rows(const __nv_bfloat16* from, std::int64_t stride, int present, __nv_bfloat16* to) {
  constexpr int kChunks = kDim / 8;
#pragma unroll 1  // each copy's addresses are registers
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks, col = i % kChunks * 8;
    const bool there = row < present;
    copy_async<16>(to + row * kTileStride<kDim> + col, from + (there ? row : 0) * stride + col, there);
  }
}

/// Writes a warp's sums to the rows that are present: row l / 4 (+ 8) of tile m times factors[m][0] ([1]).
template <int kDim, int kM>
__device__ inline void write_rows(const float (&sums)[kM][kDim / 8][4], const float (&factors)[kM][2], int present,
                                  __nv_bfloat16* to, std::int64_t stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + lane / 4;
      if (row >= present) continue;
      const float factor = factors[m][half];
      __nv_bfloat16* to_lane = to + row * stride + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        *reinterpret_cast<std::uint32_t*>(to_lane + n * 8) =
            packed(sums[m][n][2 * half] * factor, sums[m][n][2 * half + 1] * factor);
      }
    }
  }
}

}  // namespace weft::cuda
