// Attention on a GPU: causal softmax attention without cuDNN, the fallback for shapes that cuDNN can't compute and the
// reference for it, in which f32 is exact fp32 arithmetic; attention of one new token over cached keys and values, and
// the filling of the caches; and rotary position embedding. See kernels/cpu/attention/ for the meaning of the arguments
// and for rope's table of frequencies.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::AttentionGradients;
using cpu::AttentionShape;
using cpu::AttentionTensors;

/// Larger head dimensions are refused (std::logic_error).
inline constexpr std::int64_t kLargestHeadDim = cpu::kWidestHeadOnGpu;

/// Writes out and log_sum_exp.
void attention_forward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors);

/// Reads all tensors and dout; writes dq, dk and dv. No atomics: the order of sums depends only on the shape.
void attention_backward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors,
                        const AttentionGradients& gradients);
std::int64_t attention_backward_scratch_bytes(const AttentionShape& shape);

using cpu::DecodeShape;
using cpu::DecodeTensors;

/// Row (b, s) of x [batch·seq, cols] becomes row (b, s) of cache [batch·context, cols]; seq ≤ context; one float dtype.
void cache_store(const Launch& launch, std::int64_t batch, std::int64_t seq, std::int64_t context, const Matrix& x,
                 const Matrix& cache);

/// Stores k and v at *position of every sequence, then out = softmax(q·kᵀ/√head_dim)·v over positions 0 … *position.
/// `position` is device memory. A position outside the caches is a fault, and nothing is stored.
void attention_decode(const Launch& launch, const DecodeShape& shape, const std::int64_t* position,
                      const DecodeTensors& tensors);

/// Rotates x [rows, heads·head_dim] in place by position·frequency[j], position = *offset + row mod seq_len (`offset`
/// null: 0), and multiplies it by `factor`; `inverse` rotates the other way. `frequencies` has head_dim/2 numbers;
/// `frequencies` and `offset` are device memory.
void rope(const Launch& launch, const float* frequencies, std::int64_t heads, std::int64_t seq_len,
          const std::int64_t* offset, bool inverse, const Matrix& x, float factor = 1.0F);

}  // namespace weft::cuda
