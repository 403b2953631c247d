// Embeddings of tokens, learned positions and rotary positions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

/// Row r of out = wte[token r] (+ wpe[position + r mod seq_len]; position is 0 without an offset). Sharded: wte holds
/// tokens [c·vocab, (c+1)·vocab) of coordinate c. Rows of other tokens become zero, and positions aren't added, so that
/// the sum over ranks is the embedding.
struct EmbeddingForward {
  std::int64_t rows, cols, vocab, seq_len;
  bool positions = false, has_offset = false, sharded = false;

  static constexpr std::string_view kind = "embedding";
  static constexpr auto fields() {
    return std::tuple{
        field("rows", &EmbeddingForward::rows),           field("cols", &EmbeddingForward::cols),
        field("vocab", &EmbeddingForward::vocab),         field("seq_len", &EmbeddingForward::seq_len),
        field("positions", &EmbeddingForward::positions), field("has_offset", &EmbeddingForward::has_offset),
        field("sharded", &EmbeddingForward::sharded)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("tokens", {rows}, DType::i32),
        reads("wte", {vocab, cols}, kFloat),
        reads("wpe", any_rows(cols), same_as("wte")).when(positions),  // [context, cols]
        writes("out", {rows, cols}, same_as("wte")),
        reads("position", {1}, DType::i64).when(has_offset),
        reads("coordinate", {1}, DType::i64).when(sharded),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, 1, 3 * element_bytes); }
};

/// dwte[token r] += dout[r], in row order. Without accumulate, the rows of absent tokens are set to zero. Sharded: only
/// the rank's own tokens, as in EmbeddingForward.
struct EmbeddingBackward {
  std::int64_t rows, cols, vocab;
  bool accumulate = false, sharded = false;

  static constexpr std::string_view kind = "embedding_backward";
  static constexpr auto fields() {
    return std::tuple{field("rows", &EmbeddingBackward::rows), field("cols", &EmbeddingBackward::cols),
                      field("vocab", &EmbeddingBackward::vocab), field("accumulate", &EmbeddingBackward::accumulate),
                      field("sharded", &EmbeddingBackward::sharded)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("tokens", {rows}, DType::i32),
        reads("dout", {rows, cols}, kFloat),
        writes("dwte", {vocab, cols}, DType::f32).updated_when(accumulate),
        reads("coordinate", {1}, DType::i64).when(sharded),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {as_double(rows * cols),
            (element_bytes + 8) * as_double(rows * cols) + (accumulate ? 0 : 4 * as_double(vocab * cols))};
  }
};

/// dwpe[position + p] (+)= sum over sequences of dout[sequence, p]; position is 0 without an offset. Without
/// accumulate, other rows are set to zero.
struct PositionBackward {
  std::int64_t rows, cols, seq_len, context;
  bool accumulate = false, has_offset = false;

  static constexpr std::string_view kind = "position_backward";
  static constexpr auto fields() {
    return std::tuple{field("rows", &PositionBackward::rows),
                      field("cols", &PositionBackward::cols),
                      field("seq_len", &PositionBackward::seq_len),
                      field("context", &PositionBackward::context),
                      field("accumulate", &PositionBackward::accumulate),
                      field("has_offset", &PositionBackward::has_offset).told_if_set()};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("dout", {rows, cols}, kFloat),
        writes("dwpe", {context, cols}, DType::f32).updated_when(accumulate),
        reads("position", {1}, DType::i64).when(has_offset),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {as_double(rows * cols), element_bytes * as_double(rows * cols) + 4 * as_double(context * cols)};
  }
};

/// How the frequencies of a rotary embedding are scaled (transformers' rope_type).
enum class RopeKind : std::uint8_t { llama3, linear, yarn };

constexpr std::string_view to_string(RopeKind kind) {
  constexpr auto kNames = std::to_array<std::string_view>({"llama3", "linear", "yarn"});
  return kNames.at(static_cast<std::size_t>(kind));
}

/// Rotary embedding in place, in Hugging Face's half-split layout; `inverse` rotates back (the adjoint). Row r is at
/// position offset + r mod seq_len. Scaling applies if scaling_factor != 1. The result is multiplied by
/// attention_factor in both directions; 0 counts as 1. `fractional`: yarn's bounds aren't rounded to whole elements.
struct Rope {
  std::int64_t rows, heads, head_dim, seq_len;
  float theta = 10000.0F;
  float scaling_factor = 1.0F, low_freq_factor = 1.0F, high_freq_factor = 4.0F, original_context = 8192.0F;
  bool inverse = false, has_offset = false;
  RopeKind scaling = RopeKind::llama3;
  float attention_factor = 0.0F;
  bool fractional = false;

  static constexpr std::string_view kind = "rope";
  static constexpr auto fields() {
    return std::tuple{field("rows", &Rope::rows),
                      field("heads", &Rope::heads),
                      field("head_dim", &Rope::head_dim),
                      field("seq_len", &Rope::seq_len),
                      field("theta", &Rope::theta),
                      field("scaling_factor", &Rope::scaling_factor),
                      field("low_freq_factor", &Rope::low_freq_factor),
                      field("high_freq_factor", &Rope::high_freq_factor),
                      field("original_context", &Rope::original_context),
                      field("inverse", &Rope::inverse),
                      field("has_offset", &Rope::has_offset),
                      field("scaling", &Rope::scaling).told_if_set(),
                      field("attention_factor", &Rope::attention_factor).told_if_set(),
                      field("fractional", &Rope::fractional).told_if_set()};
  }
  constexpr auto arguments() const {
    return std::array{
        updates("x", {rows, heads * head_dim}, kFloat),
        reads("position", {1}, DType::i64).when(has_offset),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * heads * head_dim, 3, 2 * element_bytes); }
};

using EmbeddingOperations = OperationList<EmbeddingForward, EmbeddingBackward, PositionBackward, Rope>;

}  // namespace weft::graph
