// The two model families as functions from tokens to logits, composed of the ops.
#pragma once

#include <optional>

#include "ops/attention.h"
#include "ops/lowering.h"

namespace weft::ops {

/// Options of the forward pass besides the model.
struct ForwardOptions {
  Sequences sequences;
  float dropout = 0.0F;
  std::int64_t row_offset = 0;  // first row of this micro-batch among the rank's rows of the step
  bool recompute_blocks = false;
};

/// Embedding, blocks and final norm: tokens (i32 view of `rows` elements) → [rows, hidden]. Of several stages, the ones
/// that these ranks have: an input that another rank makes is received, an output that another rank needs is sent, and
/// nothing is returned without the last stage.
///
///   gpt2   x += attn.out(attention(qkv(norm1(x))));  x += mlp.down(gelu(mlp.up(norm2(x))))
///   llama  the same with RMSNorm, RoPE, grouped-query attention and swiglu(gate | up) for gelu; see ModelConfig for
///          biases, norms of Q and K, and windows
std::optional<Value> transformer(Lowering& low, graph::View tokens, std::int64_t rows, const ForwardOptions& options);

/// Logits [rows, vocab] of hidden states; a tied model multiplies by the token embedding.
Value language_model_head(Lowering& low, Value hidden);

}  // namespace weft::ops
