// Causal softmax attention, tiled over query blocks: the scores of one block of one head are in worker scratch; no seq
// × seq matrix exists. The backward pass recomputes the probabilities from the stored log-sum-exp (Dao et al. 2022,
// arXiv:2205.14135, section 3.1 and appendix B). If pairs of bf16 are multiplied, probabilities and gradients of scores
// are rounded to bf16 before they are multiplied, as on GPUs. All sums are fp32.
//
// Attention of one new token over cached keys and values, and the filling of the caches; and rotary position embedding
// (Su et al. 2021, arXiv:2104.09864) in Hugging Face's half-split layout.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"
#include "kernels/host_device.h"

namespace weft::cpu {

/// The widest head that the GPU's kernels take.
inline constexpr std::int64_t kWidestHeadOnGpu = 256;

/// The factor of scores: `scale`, or 1/√head_dim if it is 0.
inline float score_factor(float scale, std::int64_t head_dim) {
  return scale != 0.0F ? scale : 1.0F / std::sqrt(static_cast<float>(head_dim));
}

/// Query head h reads key/value head h / (heads / kv_heads); scores are multiplied by score_factor(). With a window w >
/// 0 the query at position p sees keys p − w + 1 … p, else all keys up to p.
struct AttentionShape {
  std::int64_t batch, seq, heads, kv_heads, head_dim;
  std::int64_t window = 0;
  float scale = 0.0F;

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

/// Row (b, s) of x [batch·seq, cols] becomes row (b, s) of cache [batch·context, cols]; seq ≤ context; one float dtype.
void cache_store(Workers& workers, std::int64_t batch, std::int64_t seq, std::int64_t context, const Matrix& x,
                 const Matrix& cache);

struct DecodeShape {
  std::int64_t batch, heads, kv_heads, head_dim, context;
  std::int64_t window = 0;  // 0: none
  float scale = 0.0F;

  /// The number of keys that the token at `position` sees.
  WEFT_HOST_DEVICE std::int64_t visible(std::int64_t position) const {
    return window > 0 && window <= position ? window : position + 1;
  }
};

/// q, out [batch, heads·head_dim]; k, v [batch, kv_heads·head_dim]; caches [batch·context, kv_heads·head_dim]; all of
/// one float dtype.
struct DecodeTensors {
  Matrix q, k, v, k_cache, v_cache, out;
};

/// Stores k and v at `position` of every sequence, then out = softmax(score_factor()·q·kᵀ)·v over positions 0 …
/// position, of which a window leaves the last. Throws RuntimeFault if the position is outside the caches.
void attention_decode(Workers& workers, const DecodeShape& shape, std::int64_t position, const DecodeTensors& tensors);
Scratch attention_decode_scratch(const DecodeShape& shape);

/// Scaling of frequencies as transformers' `rope_type` of the same name computes it; factor 1 changes nothing.
struct RopeScaling {
  enum class Kind : std::uint8_t { llama3, linear, yarn };

  float factor = 1.0F, low_freq_factor = 1.0F, high_freq_factor = 4.0F, original_context = 8192.0F;
  Kind kind = Kind::llama3;
  bool fractional = false;  // yarn's bounds aren't rounded to whole pairs
};

/// Frequency, in radians per position, of each pair j < head_dim/2: f = θ^(−2j/head_dim), scaled.
///   llama3  context/wavelength t = context·f/2π: t < low gives f/factor, t > high gives f; between them the two are
///           blended linearly in t
///   linear  f/factor
///   yarn    (Peng et al. 2023, arXiv:2309.00071) as llama3, but linear in j between the pairs at which t is high and
///           low
std::vector<float> rope_frequencies(std::int64_t head_dim, float theta, const RopeScaling& scaling);

/// Rotates x [rows, heads·head_dim] in place: pair (a, b) = elements (j, j + head_dim/2) of each head becomes (a·cos −
/// b·sin, b·cos + a·sin)·factor with angle position·frequency[j], position = offset + row mod seq_len. `inverse`
/// rotates the other way, which makes it the adjoint. x has a float dtype.
void rope(Workers& workers, std::span<const float> frequencies, std::int64_t heads, std::int64_t seq_len,
          std::int64_t offset, bool inverse, const Matrix& x, float factor = 1.0F);
Scratch rope_scratch(std::int64_t head_dim);

}  // namespace weft::cpu
