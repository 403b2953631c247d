// Causal self-attention on packed queries, keys and values, in training, prefill and decoding.
#pragma once

#include "ops/linear.h"
#include "ops/lowering.h"

namespace weft::ops {

/// What a sequence's tokens look at.
struct Sequences {
  std::int64_t batch = 1, seq_len = 1;
  enum class Mode : std::uint8_t {
    training,  // causal within the sequence, differentiable
    prefill,   // the same, and keys and values go to the layer's caches
    decode     // one new token a sequence, behind what the caches hold at `position`
  } mode = Mode::training;
};

/// The outputs of the QKV layer on this grid: one, q | k | v by columns; or, where the ranks of x share key and value
/// heads (see LocalHeads), q and then k | v of all heads of the y block.
std::vector<LinearOutput> qkv_outputs(const ModelConfig& model, const graph::Grid& grid);

/// What linear() makes with qkv_outputs() → [batch·seq_len, heads·head_dim] of the heads that the rank attends with.
/// Rotary embeddings (llama) turn queries and keys in place first. The caches belong to `layer`.
Value attention(Lowering& low, const std::vector<Value>& qkv, const Sequences& sequences, std::int64_t layer);

}  // namespace weft::ops
