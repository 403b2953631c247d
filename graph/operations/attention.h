// Causal softmax attention for training, and attention of one new token to a cache of keys and values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

/// Score elements of causal attention: half of the matrix, (seq + 1) / 2 keys a query on average. A query
/// has at most `window` keys; 0: as many as there are.
constexpr double causal_pairs(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t window) {
  const std::int64_t keys = window > 0 && window < seq ? window : seq;
  return as_double(batch * heads) * as_double(keys) * (2 * as_double(seq) - as_double(keys) + 1) / 2;
}

/// Scores are multiplied by `scale`, 0: 1/√head_dim; query head h reads KV head h / (heads / kv_heads). log_sum_exp
/// [batch·heads·seq] is that of the scaled scores. Window w > 0: a query at position p sees the keys p − w + 1 … p,
/// else all up to p. With `documents` it sees no key before its document: document_starts holds, for each query, the
/// position in its sequence of the first token that it may see. Positions don't decrease along a sequence. Work is
/// counted without documents, whose lengths a graph doesn't know.
struct AttentionSize {
  std::int64_t batch, seq, heads, kv_heads, head_dim;
  std::int64_t window = 0;
  bool documents = false;
  float scale = 0.0F;

  static constexpr auto fields() {
    return std::tuple{field("batch", &AttentionSize::batch),
                      field("seq", &AttentionSize::seq),
                      field("heads", &AttentionSize::heads),
                      field("kv_heads", &AttentionSize::kv_heads),
                      field("head_dim", &AttentionSize::head_dim),
                      field("window", &AttentionSize::window).told_if_set(),
                      field("documents", &AttentionSize::documents).told_if_set(),
                      field("scale", &AttentionSize::scale).told_if_set()};
  }
};

struct AttentionForward : AttentionSize {
  static constexpr std::string_view kind = "attention";
  static constexpr KindClass kind_class = KindClass::attention;
  constexpr auto arguments() const {
    const ArgumentShape queries{batch * seq, heads * head_dim}, keys{batch * seq, kv_heads * head_dim};
    return std::array{
        reads("q", queries, kFloat),          reads("k", keys, same_as("q")),
        reads("v", keys, same_as("q")),       reads("document_starts", {batch * seq}, DType::i32).when(documents),
        writes("out", queries, same_as("q")), writes("log_sum_exp", {batch * heads * seq}, DType::f32),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {4 * causal_pairs(batch, seq, heads, window) * as_double(head_dim),
            element_bytes * 2 * as_double(batch * seq * (heads + kv_heads) * head_dim)};
  }
};

struct AttentionBackward : AttentionSize {
  static constexpr std::string_view kind = "attention_backward";
  static constexpr KindClass kind_class = KindClass::attention;
  constexpr auto arguments() const {
    const ArgumentShape queries{batch * seq, heads * head_dim}, keys{batch * seq, kv_heads * head_dim};
    return std::array{
        reads("q", queries, kFloat),          reads("k", keys, same_as("q")),
        reads("v", keys, same_as("q")),       reads("document_starts", {batch * seq}, DType::i32).when(documents),
        reads("out", queries, same_as("q")),  reads("log_sum_exp", {batch * heads * seq}, DType::f32),
        reads("dout", queries, same_as("q")), writes("dq", queries, same_as("q")),
        writes("dk", keys, same_as("q")),     writes("dv", keys, same_as("q")),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {10 * causal_pairs(batch, seq, heads, window) * as_double(head_dim),
            element_bytes * 4 * as_double(batch * seq * (heads + kv_heads) * head_dim)};
  }
};

/// Copies the keys or values of whole sequences to the beginning of a cache (prefill).
struct CacheStore {
  std::int64_t batch, seq, cols, context;

  static constexpr std::string_view kind = "cache_store";
  static constexpr KindClass kind_class = KindClass::copy;
  static constexpr auto fields() {
    return std::tuple{field("batch", &CacheStore::batch), field("seq", &CacheStore::seq),
                      field("cols", &CacheStore::cols), field("context", &CacheStore::context)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {batch * seq, cols}, kFloat),
        updates("cache", {batch * context, cols}, same_as("x")),
    };
  }
  constexpr Work work(double element_bytes) const { return {0, 2 * element_bytes * as_double(batch * seq * cols)}; }
};

/// For each sequence, stores the key and value of one new token at `position`, then attends to positions 0..position,
/// or with a window w to the last w of them. `scale` as in AttentionSize.
struct AttentionDecode {
  std::int64_t batch, heads, kv_heads, head_dim, context;
  std::int64_t window = 0;
  float scale = 0.0F;

  static constexpr std::string_view kind = "attention_decode";
  static constexpr KindClass kind_class = KindClass::attention;
  static constexpr auto fields() {
    return std::tuple{field("batch", &AttentionDecode::batch),
                      field("heads", &AttentionDecode::heads),
                      field("kv_heads", &AttentionDecode::kv_heads),
                      field("head_dim", &AttentionDecode::head_dim),
                      field("context", &AttentionDecode::context),
                      field("window", &AttentionDecode::window).told_if_set(),
                      field("scale", &AttentionDecode::scale).told_if_set()};
  }
  constexpr auto arguments() const {
    const ArgumentShape queries{batch, heads * head_dim}, keys{batch, kv_heads * head_dim};
    const ArgumentShape cache{batch * context, kv_heads * head_dim};
    return std::array{
        reads("q", queries, kFloat),
        reads("k", keys, same_as("q")),
        reads("v", keys, same_as("q")),
        updates("k_cache", cache, same_as("q")),
        updates("v_cache", cache, same_as("q")),
        reads("position", {1}, DType::i64),
        writes("out", queries, same_as("q")),
    };
  }
  constexpr Work work(double element_bytes) const {
    const std::int64_t keys = window > 0 && window < context ? window : context;
    return {4 * as_double(batch * heads * keys * head_dim),
            2 * element_bytes * as_double(batch * kv_heads * keys * head_dim)};
  }
};

using AttentionOperations = OperationList<AttentionForward, AttentionBackward, CacheStore, AttentionDecode>;

}  // namespace weft::graph
