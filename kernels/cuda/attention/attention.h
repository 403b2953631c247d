// Causal softmax attention on the GPU without cuDNN: the fallback for shapes that cuDNN can't compute, and the
// reference for it. f32 is exact fp32 arithmetic. See kernels/cpu/attention/attention.h for the meaning of the
// arguments.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::AttentionGradients;
using cpu::AttentionShape;
using cpu::AttentionTensors;

/// Larger head dimensions are refused (std::logic_error).
inline constexpr std::int64_t kLargestHeadDim = 256;

/// Writes out and log_sum_exp.
void attention_forward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors);

/// Reads all tensors and dout; writes dq, dk and dv. No atomics: the order of sums depends only on the shape.
void attention_backward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors,
                        const AttentionGradients& gradients);
std::int64_t attention_backward_scratch_bytes(const AttentionShape& shape);

}  // namespace weft::cuda
