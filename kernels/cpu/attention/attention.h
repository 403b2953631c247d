// Causal softmax attention, tiled over query blocks: the scores of one block of one head are in worker scratch; no seq
// × seq matrix exists. The backward pass recomputes the probabilities from the stored log-sum-exp (Dao et al. 2022,
// arXiv:2205.14135, section 3.1 and appendix B). If pairs of bf16 are multiplied, probabilities and gradients of scores
// are rounded to bf16 before they are multiplied, as on GPUs. All sums are fp32.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// Query head h reads key/value head h / (heads / kv_heads); scores are scaled by 1/√head_dim. With a window w > 0 the
/// query at position p sees keys p − w + 1 … p, else all keys up to p.
struct AttentionShape {
  std::int64_t batch, seq, heads, kv_heads, head_dim;
  std::int64_t window = 0;

  std::int64_t group() const { return heads / kv_heads; }
};

/// q, out [batch·seq, heads·head_dim]; k, v [batch·seq, kv_heads·head_dim], all of one float dtype;
/// log_sum_exp f32 [batch·heads·seq]: log Σ exp of the scaled scores.
struct AttentionTensors {
  Matrix q, k, v, out, log_sum_exp;
  /// [batch·seq], or null: the first position in its sequence that each query sees, at most its own; doesn't decrease
  /// along a sequence. So sequences of several documents attend within documents.
  const std::int32_t* document_starts = nullptr;
};

/// Writes out and log_sum_exp. `bf16`: the unit that multiplies bf16, pairs or fp32; amx has no tiles here and counts
/// as fp32.
void attention_forward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                       PackedUnit bf16 = widest_bf16_unit());
Scratch attention_forward_scratch(const AttentionShape& shape, DType dtype, PackedUnit bf16 = widest_bf16_unit());

/// With the shapes and the dtype of out, q, k and v.
struct AttentionGradients {
  Matrix dout, dq, dk, dv;
};

/// Reads all tensors and dout; writes dq, dk and dv. The gradients of keys are summed over query heads and blocks in a
/// fixed order, by one worker for each KV head.
void attention_backward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                        const AttentionGradients& gradients, PackedUnit bf16 = widest_bf16_unit());
Scratch attention_backward_scratch(const AttentionShape& shape, DType dtype, PackedUnit bf16 = widest_bf16_unit());

}  // namespace weft::cpu
