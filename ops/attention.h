// Causal self-attention on packed queries, keys and values, in training, prefill and decoding.
#pragma once

#include "ops/lowering.h"

namespace weft {

/// What a sequence's tokens look at.
struct Sequences {
  std::int64_t batch = 1, seq_len = 1;
  enum class Mode : std::uint8_t {
    training,  // causal within the sequence, differentiable
    prefill,   // the same, and keys and values go to the layer's caches
    decode     // one new token a sequence, behind what the caches hold at `position`
  } mode = Mode::training;
};

/// qkv [batch·seq_len, (heads + 2·kv_heads)·head_dim], columns q | k | v → [batch·seq_len, heads·head_dim].
/// Rotary embeddings (llama) turn queries and keys in place first. The caches belong to `layer`.
Value attention(Lowering& low, Value qkv, const Sequences& sequences, std::int64_t layer);

}  // namespace weft
