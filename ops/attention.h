// Causal self-attention on packed queries, keys and values, in training, prefill and decoding.
#pragma once

#include <optional>

#include "ops/linear.h"
#include "ops/lowering.h"

namespace weft::ops {

/// The length of sequences, and the tokens that a token attends to.
struct Sequences {
  std::int64_t batch = 1, seq_len = 1;
  enum class Mode : std::uint8_t {
    training,  // causal within the sequence, differentiable
    prefill,   // causal too; keys and values are stored in the layer's caches
    decode     // one new token for each sequence, at `position`, after the cached tokens
  } mode = Mode::training;
  /// In training, i32 [batch·seq_len]: the position in its sequence of the first token of each token's document. Tokens
  /// then attend within their document. Not set: to all tokens before them.
  std::optional<graph::View> document_starts = std::nullopt;
};

/// The outputs of the QKV layer on this grid. Normally one output with columns q | k | v, with context in a part for
/// the heads of each rank of context; if the ranks of x share key and value heads (see LocalHeads), q, then k | v of
/// all heads of the y block.
std::vector<LinearOutput> qkv_outputs(const ModelConfig& model, const graph::Grid& grid);

/// `qkv` is the result of linear() with qkv_outputs(). Returns [batch·seq_len, heads·head_dim] for the rank's heads.
/// With context a rank has some rows of all sequences: it exchanges these for all rows of fewer heads, attends, and
/// changes back. So it returns a part for each group of heads, one below the other.
/// Queries and keys are first normalised and rotated in place, where the model does so in `layer`, which also has the
/// window and the caches.
Value attention(Lowering& low, const std::vector<Value>& qkv, const Sequences& sequences, std::int64_t layer);

}  // namespace weft::ops
