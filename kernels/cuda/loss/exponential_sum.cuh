// Σ eˣ of a row by one block, which reads the row once: each thread moves its reference when it finds larger numbers,
// then the block combines the threads' sums. For softmax losses over a vocabulary.
#pragma once

#include <cfloat>
#include <cstdint>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {

/// The sum as total·e^reference_of(top), where `top` is the largest number, −inf if there is none.
struct ExponentialSum {
  float top, total;
};

/// Finite even if all numbers are −inf, so that differences from it aren't NaN.
__device__ inline float reference_of(float top) {
  return fmaxf(top, -FLT_MAX);
}

/// e^(x − reference). The difference is computed before anything is rounded, since logits may be thousands while their
/// differences are small.
__device__ inline float exponential(float x, float reference) {
  return exp2f((x - reference) * 1.44269504F);
}

inline constexpr int kRowBatch = 4;  // pieces that a thread loads before it uses them

/// The sum over the first n elements of a row whose length is a whole number of pieces. All threads of the block must
/// call, and all get the sum. With kStaged, stage[i] becomes piece i as it was read, written by thread i mod
/// blockDim.x. The order of additions depends only on n and blockDim.x.
template <class T, int kWidth, bool kStaged>
__device__ ExponentialSum exponential_sum(const T* x, std::int64_t n, Raw<T, kWidth>* stage, float* shared) {
  const std::int64_t pieces = (n + kWidth - 1) / kWidth;
  float top = -INFINITY, total = 0.0F;
  for (std::int64_t first = threadIdx.x; first < pieces; first += static_cast<std::int64_t>(kRowBatch) * blockDim.x) {
    Raw<T, kWidth> raw[kRowBatch];
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const std::int64_t piece = first + static_cast<std::int64_t>(u) * blockDim.x;
      raw[u] = Raw<T, kWidth>{};
      if (piece < pieces) raw[u] = fetch<kWidth>(x + piece * kWidth);
    }
    float values[kRowBatch][kWidth], largest = top;
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const std::int64_t piece = first + static_cast<std::int64_t>(u) * blockDim.x;
      if constexpr (kStaged) {
        if (piece < pieces) stage[piece] = raw[u];
      }
      unpack(raw[u], values[u]);
      if ((piece + 1) * kWidth > n) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[u][i] = piece * kWidth + i < n ? values[u][i] : -INFINITY;
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) largest = fmaxf(largest, values[u][i]);
    }
    const float reference = reference_of(largest);
    if (largest > top) total *= exponential(reference_of(top), reference);
    top = largest;
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum += exponential(values[u][i], reference);
      total += sum;
    }
  }
  const float whole = block_max(top, shared);
  return {whole, block_sum(total * exponential(reference_of(top), reference_of(whole)), shared)};
}

/// The number of threads that a row of `pieces` pieces keeps busy.
inline int row_threads(std::int64_t pieces, int most) {
  return pieces >= most ? most : static_cast<int>((pieces + kWarp - 1) / kWarp * kWarp);
}

}  // namespace weft::cuda
