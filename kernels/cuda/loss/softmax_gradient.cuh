// The gradient of a softmax loss over a row of logits, written in place by one block: for a whole vocabulary or a part
// of one.
#pragma once

#include <cstdint>

#include "kernels/cuda/items.cuh"
#include "kernels/cuda/loss/exponential_sum.cuh"

namespace weft::cuda {

/// The gradient of a row of cross-entropy: exp(x − reference)·factor, except at_target in the target's column (−1: no
/// column).
struct SoftmaxGradient {
  float reference, factor;
  std::int64_t target;
  float at_target;
};

/// Overwrites the row's logits with the gradient. Reads the first `tokens` logits (from shared memory `stage`, as
/// exponential_sum() left them, if kStaged) and writes zeros after them up to `cols`. All threads of the block must
/// call.
template <class T, int kWidth, bool kStaged>
__device__ inline void write_softmax_gradient(T* x, const Raw<T, kWidth>* stage, std::int64_t cols, std::int64_t tokens,
                                              const SoftmaxGradient& of) {
  const std::int64_t pieces = cols / kWidth, stride = blockDim.x;
  for (std::int64_t first = threadIdx.x; first < pieces; first += kRowBatch * stride) {
    Raw<T, kWidth> raw[kRowBatch];
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const std::int64_t piece = first + u * stride;
      raw[u] = Raw<T, kWidth>{};
      if (piece * kWidth >= tokens) continue;
      if constexpr (kStaged) {
        raw[u] = stage[piece];
      } else {
        raw[u] = fetch<kWidth>(x + piece * kWidth);
      }
    }
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const std::int64_t piece = first + u * stride, col = piece * kWidth;
      if (piece >= pieces) continue;
      float values[kWidth];
      unpack(raw[u], values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] = exponential(values[i], of.reference) * of.factor;
      if (of.target >= col && of.target < col + kWidth) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[i] = col + i == of.target ? of.at_target : values[i];
      }
      if (col + kWidth > tokens) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[i] = col + i < tokens ? values[i] : 0.0F;
      }
      store(x + col, values);
    }
  }
}

/// The gradient of a row without a target.
template <class T, int kWidth>
__device__ inline void write_zeros(T* x, std::int64_t cols) {
  const float zeros[kWidth] = {};
  const std::int64_t pieces = cols / kWidth, stride = blockDim.x;
  for (std::int64_t piece = threadIdx.x; piece < pieces; piece += stride) store(x + piece * kWidth, zeros);
}

}  // namespace weft::cuda
