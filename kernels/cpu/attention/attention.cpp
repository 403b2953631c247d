// Tiled causal attention; see attention.h.
//
// A tile is 64 keys by 64 queries, with the queries in the lanes of vectors. Maxima and sums over keys are then sums of
// vectors, and each element of a key or value is a scalar that multiplies a vector of queries. Only the blocks of
// queries (and of dout) need to be transposed. On the diagonal, groups of kLanes keys skip the queries that don't see
// them.
//
// Tiles consist of 32-bit words: floats or, if the CPU multiplies them, pairs of bf16. A pair holds two neighbours
// along the dimension that a product sums over: elements of one row ("along"), or of two consecutive rows ("across").
// For floats, "along" and "across" are the same.
#include "kernels/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/attention/attention_blocks.h"
#include "kernels/cpu/attention/attention_tiles.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/block_transpose.h"
#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kVectors = kTile / kLanes;

// bf16 elements whose tiles consist of pairs; with plain bf16 as the type, tiles consist of floats.
struct PairedBf16 : bf16 {};
static_assert(sizeof(PairedBf16) == sizeof(bf16));

// Whether T's tiles consist of pairs, and the number of elements in a word.
template <class T>
inline constexpr bool kPaired = std::is_same_v<T, PairedBf16>;
template <class T>
inline constexpr std::int64_t kPerWord = kPaired<T> ? 2 : 1;

// The head dimension, padded to whole vectors of words.
template <class T>
std::int64_t padded(const AttentionShape& shape) {
  return round_up(shape.head_dim, kLanes * kPerWord<T>);
}

// Words of a row along the head dimension, and words of `rows` rows across.
template <class T>
std::int64_t row_words(const AttentionShape& shape) {
  return padded<T>(shape) / kPerWord<T>;
}
template <class T>
std::int64_t across(std::int64_t rows) {
  return ceil_div(rows, kPerWord<T>);
}

float scale_of(const AttentionShape& shape) {
  return score_factor(shape.scale, shape.head_dim);
}

// Of the sequence that begins at `first_row`; null without documents.
const std::int32_t* starts_of(const AttentionTensors& tensors, std::int64_t first_row) {
  return tensors.document_starts == nullptr ? nullptr : tensors.document_starts + first_row;
}

// Rows of one head, beginning at `row`.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;

  HeadRows(const Matrix& matrix, std::int64_t row, std::int64_t head, std::int64_t head_dim)
      : data(elements<T>(matrix, row) + head * head_dim), stride(matrix.row_stride) {}
};

// A head's part of a row is only a few cache lines of a row of all heads: too short for the hardware's prefetchers.
template <int kWrite, class T>
void prefetch_row(const HeadRows<T>& head, std::int64_t row, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; i += kLine<T>) __builtin_prefetch(head.data + row * head.stride + i, kWrite);
}
constexpr std::int64_t kRowsAhead = 8;

// to[rows, words] = scale·from as words along rows, with zeros after the head dimension. The rows are contiguous, so
// they don't compete for cache sets. Pairs are copied unscaled: their products are scaled.
template <class T>
void copy_rows(const HeadRows<T>& from, std::int64_t rows, std::int64_t dim, float scale, float* to) {
  const std::int64_t words = round_up(ceil_div(dim, kPerWord<T>), kLanes);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row + kRowsAhead < rows) prefetch_row<0>(from, row + kRowsAhead, dim);
    const T* source = from.data + row * from.stride;
    float* target = to + row * words;
    if constexpr (kPaired<T>) {
      for (std::int64_t i = 0; i < dim; i += 2 * kLanes) {
        Floats pairs{};
        if (i + 2 * kLanes <= dim) {
          std::memcpy(&pairs, source + i, sizeof pairs);
        } else {
          std::memcpy(&pairs, source + i, static_cast<std::size_t>(dim - i) * sizeof(T));
        }
        store(target + i / 2, pairs);
      }
    } else {
      for_vectors(dim, [&](std::int64_t i, auto lanes) { store(target + i, scale * lanes.load(source + i)); });
    }
  }
}

// to[⌈rows/2⌉, 2·words]: pairs across rows, from rows[rows, words] along; a missing last row counts as zero.
[[maybe_unused]] void pair_rows(const float* rows, std::int64_t count, std::int64_t words, float* to) {
  for (std::int64_t row = 0; row < count; row += 2, to += 2 * words) {
    for (std::int64_t i = 0; i < words; i += kLanes) {
      const Words first = lanes_cast<Words>(load(rows + row * words + i));
      const Words second = row + 1 < count ? lanes_cast<Words>(load(rows + (row + 1) * words + i)) : Words{};
      // Columns 2i and 2i + 1; each is a pair.
      const Words even = (first & 0xffffU) | (second << 16), odd = (first >> 16) | (second & 0xffff0000U);
      const Pair in_order = interleave(lanes_cast<Floats>(even), lanes_cast<Floats>(odd));
      store(to + 2 * i, in_order.first), store(to + 2 * i + kLanes, in_order.second);
    }
  }
}

// The inverse copy, from floats: to[rows, dim] = scale·from[rows, padded], rounded to T.
template <class T>
void write_rows(const float* from, std::int64_t rows, std::int64_t dim, float scale, const HeadRows<T>& to) {
  const std::int64_t from_stride = round_up(dim, kLanes * kPerWord<T>);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row + kRowsAhead < rows) prefetch_row<1>(to, row + kRowsAhead, dim);
    for_vectors(dim, [&](std::int64_t i, auto lanes) {
      lanes.store(to.data + row * to.stride + i, scale * load(from + row * from_stride + i));
    });
  }
}

// to[cols, kTile] = transpose of from[rows, cols], in words; columns up to the next whole vector become zero.
void transpose_rows(const float* from, std::int64_t rows, std::int64_t cols, float* to) {
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    for (std::int64_t col = 0; col < cols; col += kLanes) {
      Floats block[kLanes] = {};
      const std::int64_t present = std::min(kLanes, rows - row);
      for (std::int64_t i = 0; i < present; ++i) block[i] = load(from + (row + i) * cols + col);
      transpose(block);
      for (std::int64_t i = 0; i < kLanes; ++i) store(to + (col + i) * kTile + row, block[i]);
    }
  }
}

// tile[keys, queries] = rows[keys, words]·columns[words, queries], where a query may see the key.
template <bool kPairs>
void key_query_products(const KeyTile& tile, const Block& block, const float* rows, const float* columns,
                        std::int64_t words, float* products) {
  const TileProduct whole{rows + tile.first * words, words, 1, columns, kTile, products, kTile, words, false};
  if (!tile.diagonal) return multiply_tile<kPairs>(whole, tile.keys, block.vectors());
  for (std::int64_t v = 0; v < block.vectors(); ++v) {
    const std::int64_t key = v * kLanes;
    TileProduct part = whole;
    part.a += key * words, part.b += key, part.c += key * kTile + key;
    multiply_tile<kPairs>(part, std::min(kLanes, tile.keys - key), block.vectors() - v);
  }
}

// --- forward

// Keys and queries are stored along rows, values across.
template <class T>
struct ForwardScratch {
  float *k, *v, *queries, *transposed, *tile, *sums;
  std::size_t bytes;

  ForwardScratch(const AttentionShape& shape, std::byte* begin) {
    ScratchParts parts(begin);
    const std::int64_t dim = padded<T>(shape), words = row_words<T>(shape);
    k = parts.floats(shape.seq * words), v = parts.floats(across<T>(shape.seq) * dim);
    queries = parts.floats(kTile * words), transposed = parts.floats(kTile * words);
    tile = parts.floats(kTile * kTile), sums = parts.floats(kTile * dim);
    bytes = parts.used();
  }
};

// The running softmax of a block of queries (Milakov and Gimelshein 2018, arXiv:1805.02867). With pairs, the input
// scores aren't yet scaled, and the output is probabilities in pairs across keys.
template <class T>
struct Softmax {
  Floats largest[kVectors], total[kVectors];
  float scale;

  explicit Softmax(float scale_of_scores) : scale(scale_of_scores) {
    for (Floats& value : largest) value = broadcast(-std::numeric_limits<float>::infinity());
    for (Floats& value : total) value = Floats{};
  }

  Floats scaled(Floats x) const {
    if constexpr (kPaired<T>) x *= scale;
    return x;
  }

  // Replaces the scores of vector `v` by exp(score − largest). Returns the factor for earlier sums.
  Floats add(const KeyTile& tile, std::int64_t v, float* scores) {
    const std::int64_t visible = tile.visible(v);
    float* column = scores + v * kLanes;
    for (std::int64_t key = tile.diagonal ? v * kLanes : visible; key < visible; ++key) {
      const Floats score = load(column + key * kTile);
      store(column + key * kTile,
            hidden_lanes(key, v) != 0 ? broadcast(-std::numeric_limits<float>::infinity()) : score);
    }
    for (std::int64_t key = 0; tile.bounded && key < visible; ++key) {
      const Floats score = load(column + key * kTile);
      store(column + key * kTile, tile.past(key, v) != 0 ? broadcast(kPastKey) : score);
    }
    Floats a = largest[v], b = a, c = a, d = a;
    std::int64_t key = 0;
    for (; key + 4 <= visible; key += 4) {
      const float* four = column + key * kTile;
      a = max(load(four), a), b = max(load(four + kTile), b);
      c = max(load(four + 2 * kTile), c), d = max(load(four + 3 * kTile), d);
    }
    for (; key < visible; ++key) a = max(load(column + key * kTile), a);
    const Floats top = max(max(a, b), max(c, d)), correction = softmax_exp(scaled(largest[v] - top));
    Floats even{}, odd{};
    for (key = 0; key + 2 <= visible; key += 2) {
      const float* two = column + key * kTile;
      const Floats first = softmax_exp(scaled(load(two) - top)), second = softmax_exp(scaled(load(two + kTile) - top));
      put(column, key, first, second);
      even += first, odd += second;
    }
    if (key < visible) {
      const Floats last = softmax_exp(scaled(load(column + key * kTile) - top));
      put(column, key, last, Floats{});
      even += last;
    }
    largest[v] = top;
    total[v] = total[v] * correction + (even + odd);
    return correction;
  }

  // Stores the probabilities of keys `key` and `key` + 1. Pairs take half the rows; the rows that they overwrite have
  // been read.
  static void put(float* column, std::int64_t key, Floats first, Floats second) {
    if constexpr (kPaired<T>) {
      store_pair(reinterpret_cast<bf16*>(column + key / 2 * kTile), {first, second});
    } else {
      store(column + key * kTile, first), store(column + (key + 1) * kTile, second);
    }
  }
};

// One block of one query head; reads copies of the head's keys and values.
template <class T>
void forward_block(const AttentionShape& shape, const Block& block, const HeadRows<T>& q, const HeadRows<T>& out,
                   float* log_sum_exp, const ForwardScratch<T>& scratch) {
  const std::int64_t dim = padded<T>(shape), words = row_words<T>(shape), vectors = block.vectors();
  copy_rows(q, block.queries, shape.head_dim, scale_of(shape), scratch.queries);
  transpose_rows(scratch.queries, block.queries, words, scratch.transposed);
  Softmax<T> softmax(scale_of(shape));
  for (std::int64_t first = block.first_tile(); first < block.keys(); first += kTile) {
    const KeyTile tile(block, first);
    key_query_products<kPaired<T>>(tile, block, scratch.k, scratch.transposed, words, scratch.tile);
    for (std::int64_t v = 0; v < vectors; ++v) {
      const Floats correction = softmax.add(tile, v, scratch.tile);
      if (tile.leads) continue;
      for (std::int64_t i = 0; i < dim; ++i) {
        float* sums = scratch.sums + i * kTile + v * kLanes;
        store(sums, load(sums) * correction);
      }
    }
    // sums[dim, queries] += values[keys, dim]ᵀ·probabilities[keys, queries]
    const TileProduct whole{scratch.v + across<T>(first) * dim,
                            1,
                            dim,
                            scratch.tile,
                            kTile,
                            scratch.sums,
                            kTile,
                            across<T>(tile.keys),
                            !tile.leads};
    if (!tile.diagonal) {
      multiply_tile<kPaired<T>>(whole, dim, vectors);
      continue;
    }
    for (std::int64_t v = 0; v < vectors; ++v) {
      const std::int64_t key = v * kLanes;
      TileProduct part = whole;
      part.a += across<T>(key) * dim, part.b += across<T>(key) * kTile + key, part.c += key;
      part.depth = across<T>(std::min(kLanes, tile.keys - key));
      part.accumulate = !tile.leads || v > 0;
      multiply_tile<kPaired<T>>(part, dim, vectors - v);
    }
  }
  for (std::int64_t v = 0; v < vectors; ++v) {
    const Floats inverse = 1.0F / softmax.total[v];
    const std::int64_t present = std::min(kLanes, block.queries - v * kLanes);
    for (std::int64_t lane = 0; lane < present; ++lane) {
      log_sum_exp[v * kLanes + lane] = softmax.scaled(softmax.largest[v])[lane] + std::log(softmax.total[v][lane]);
    }
    for (std::int64_t col = 0; col < dim; col += kLanes) {
      Floats rows[kLanes];
      for (std::int64_t i = 0; i < kLanes; ++i) {
        rows[i] = load(scratch.sums + (col + i) * kTile + v * kLanes) * inverse;
      }
      transpose(rows);
      for (std::int64_t lane = 0; lane < present; ++lane) {
        if (v * kLanes + lane + kRowsAhead < block.queries)
          prefetch_row<1>(out, v * kLanes + lane + kRowsAhead, kLanes);
        T* to = out.data + (v * kLanes + lane) * out.stride + col;
        const Floats row = rows[lane];
        if (col + kLanes <= shape.head_dim) {
          store(to, row);
        } else if (col < shape.head_dim) {
          store_partial(to, row, shape.head_dim - col);
        }
      }
    }
  }
}

// Number of parts of a KV head. A chunk is a KV head or, if there are few heads, a part of one: with n parts, each part
// takes every n-th block of queries and makes its own copy of keys and values.
std::int64_t forward_parts(const AttentionShape& shape) {
  constexpr std::int64_t kChunks = 32;
  return std::clamp<std::int64_t>(ceil_div(kChunks, shape.batch * shape.kv_heads), 1, ceil_div(shape.seq, kTile));
}

template <class T>
void forward_chunk(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors, std::int64_t chunk) {
  const std::int64_t heads = shape.batch * shape.kv_heads, parts = forward_parts(shape);
  const std::int64_t sequence = chunk % heads / shape.kv_heads, kv_head = chunk % shape.kv_heads;
  const std::int64_t first_row = sequence * shape.seq, dim = shape.head_dim;
  const ForwardScratch<T> scratch(shape, workers.worker_scratch());
  // The last blocks are the longest: their parts come first, so that workers finish together.
  const std::int64_t last = ceil_div(shape.seq, kTile) - 1 - chunk / heads;
  const std::int32_t* document_starts = starts_of(tensors, first_row);
  const std::int64_t keys = std::min(shape.seq, (last + 1) * kTile);
  const HeadRows<T> k(tensors.k, first_row, kv_head, dim), v(tensors.v, first_row, kv_head, dim);
  if constexpr (kPaired<T>) {  // values pass through the memory of the keys
    copy_rows(v, keys, dim, 1.0F, scratch.k);
    pair_rows(scratch.k, keys, row_words<T>(shape), scratch.v);
  } else {
    copy_rows(v, keys, dim, 1.0F, scratch.v);
  }
  copy_rows(k, keys, dim, 1.0F, scratch.k);
  for (std::int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (std::int64_t index = last; index >= 0; index -= parts) {
      const Block block(shape, index, document_starts);
      const std::int64_t row = first_row + block.first;
      forward_block(shape, block, HeadRows<T>(tensors.q, row, head, dim), HeadRows<T>(tensors.out, row, head, dim),
                    tensors.log_sum_exp.f32() + (sequence * shape.heads + head) * shape.seq + block.first, scratch);
      workers.progress();
    }
  }
}

// --- backward

// The suffix "_across" is for pairs across rows; for floats, it is the same memory as without the suffix.
template <class T>
struct BackwardScratch {
  float *k, *v, *dk, *dv, *q, *dout, *q_transposed, *dout_transposed, *dq, *p, *ds, *log_sum_exp, *delta;
  float *k_across, *q_across, *dout_across, *ds_across;
  std::size_t bytes;

  BackwardScratch(const AttentionShape& shape, std::byte* begin) {
    ScratchParts parts(begin);
    const std::int64_t dim = padded<T>(shape), words = row_words<T>(shape);
    for (float** whole : {&k, &v}) *whole = parts.floats(shape.seq * words);
    for (float** whole : {&dk, &dv}) *whole = parts.floats(shape.seq * dim);
    for (float** block : {&q, &dout, &q_transposed, &dout_transposed}) *block = parts.floats(kTile * words);
    dq = parts.floats(kTile * dim);
    for (float** tile : {&p, &ds}) *tile = parts.floats(kTile * kTile);
    for (float** row : {&log_sum_exp, &delta}) *row = parts.floats(kTile);
    k_across = k, q_across = q, dout_across = dout, ds_across = ds;
    if constexpr (kPaired<T>) {
      k_across = parts.floats(across<T>(shape.seq) * dim);
      for (float** block : {&q_across, &dout_across}) *block = parts.floats(across<T>(kTile) * dim);
      ds_across = parts.floats(across<T>(kTile) * kTile);
    }
    bytes = parts.used();
  }
};

// Probabilities and score gradients of one vector of queries.
struct ScoreGradient {
  Floats p, ds;
};

// p: scores S → P = exp(scale·S − log_sum_exp); ds: dP → P·(dP − delta). Both are zero where a query doesn't see the
// key. Pairs are written along rows, whose distance doesn't change; ds also across keys.
template <class T>
void score_gradients(const KeyTile& tile, const Block& block, float scale, const BackwardScratch<T>& scratch) {
  for (std::int64_t v = 0; v < block.vectors(); ++v) {
    const Floats log_sum_exp = load(scratch.log_sum_exp + v * kLanes), delta = load(scratch.delta + v * kLanes);
    const std::int64_t visible = tile.visible(v);
    const std::int64_t crossed = tile.bounded ? 0 : tile.diagonal ? std::min(visible, v * kLanes) : visible;
    const auto pass = [&](std::int64_t begin, std::int64_t end, auto masked) {
      const auto gradient = [&](std::int64_t key) {
        const Floats score = load(scratch.p + key * kTile + v * kLanes);
        Floats p = softmax_exp(kPaired<T> ? score * scale - log_sum_exp : score - log_sum_exp);
        if constexpr (masked) {
          if (tile.diagonal) p = hidden_lanes(key, v) != 0 ? Floats{} : p;
          if (tile.bounded) p = tile.past(key, v) != 0 ? Floats{} : p;
        }
        return ScoreGradient{p, p * (load(scratch.ds + key * kTile + v * kLanes) - delta)};
      };
      const auto put_row = [&](std::int64_t key, const ScoreGradient& row) {
        using Element = std::conditional_t<kPaired<T>, bf16, float>;
        const auto at = [&](float* of_tile) { return reinterpret_cast<Element*>(of_tile + key * kTile) + v * kLanes; };
        store(at(scratch.p), row.p), store(at(scratch.ds), row.ds);
      };
      for (std::int64_t key = begin; key < end; key += kPerWord<T>) {
        const ScoreGradient first = gradient(key);
        if constexpr (kPaired<T>) {
          ScoreGradient second{};
          if (key + 1 < end) second = gradient(key + 1), put_row(key + 1, second);
          float* pairs = scratch.ds_across + key / 2 * kTile + v * kLanes;
          store_pair(reinterpret_cast<bf16*>(pairs), {first.ds, second.ds});
        }
        put_row(key, first);
      }
    };
    pass(0, crossed, std::false_type{});
    pass(crossed, visible, std::true_type{});
  }
}

// sums[keys, dim] (+)= tile[keys, queries]·rows[queries, dim], over the queries that see a key.
template <class T>
void add_to_keys(const KeyTile& tile, const Block& block, const float* scores, const float* rows, std::int64_t dim,
                 bool accumulate, float* sums) {
  const TileProduct whole{scores,    kTile, 1, rows, dim, sums + tile.first * dim, dim, across<T>(block.queries),
                          accumulate};
  if (!tile.diagonal) return multiply_tile<kPaired<T>>(whole, tile.keys, dim / kLanes);
  for (std::int64_t key = 0; key < tile.keys; key += kLanes) {
    TileProduct part = whole;
    part.a += key * kTile + across<T>(key), part.b += across<T>(key) * dim, part.c += key * dim;
    part.depth -= across<T>(key);
    multiply_tile<kPaired<T>>(part, std::min(kLanes, tile.keys - key), dim / kLanes);
  }
}

// sums[queries, dim] (+)= tile[keys, queries]ᵀ·rows[keys, dim], over the keys that a query sees.
template <class T>
void add_to_queries(const KeyTile& tile, const Block& block, const float* scores, const float* rows, std::int64_t dim,
                    float* sums) {
  const float* first_row = rows + across<T>(tile.first) * dim;
  const TileProduct whole{scores, 1, kTile, first_row, dim, sums, dim, across<T>(tile.keys), !tile.leads};
  if (!tile.diagonal) return multiply_tile<kPaired<T>>(whole, block.queries, dim / kLanes);
  for (std::int64_t v = 0; v < block.vectors(); ++v) {
    const std::int64_t query = v * kLanes;
    TileProduct part = whole;
    part.a += query, part.c += query * dim;
    part.depth = across<T>(tile.visible(v));
    multiply_tile<kPaired<T>>(part, std::min(kLanes, block.queries - query), dim / kLanes);
  }
}

// All query blocks and heads for one KV head of one sequence.
template <class T>
void backward_head(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                   const AttentionGradients& gradients, std::int64_t sequence, std::int64_t kv_head) {
  constexpr bool kTwo = kPaired<T>;
  const std::int64_t head_dim = shape.head_dim, dim = padded<T>(shape), words = row_words<T>(shape), seq = shape.seq;
  const std::int64_t first_row = sequence * seq;
  const float scale = scale_of(shape);
  const BackwardScratch<T> scratch(shape, workers.worker_scratch());
  copy_rows(HeadRows<T>(tensors.k, first_row, kv_head, head_dim), seq, head_dim, 1.0F, scratch.k);
  copy_rows(HeadRows<T>(tensors.v, first_row, kv_head, head_dim), seq, head_dim, 1.0F, scratch.v);
  if constexpr (kTwo) pair_rows(scratch.k, seq, words, scratch.k_across);
  const std::int32_t* document_starts = starts_of(tensors, first_row);
  // Without bounds, the last block sees all keys. Going backwards, the first products therefore write every row, and
  // the others add.
  bool accumulate = shape.window > 0 || document_starts != nullptr;
  if (accumulate) {
    for (float* sums : {scratch.dk, scratch.dv}) std::fill_n(sums, seq * dim, 0.0F);
  }
  for (std::int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (std::int64_t index = ceil_div(seq, kTile) - 1; index >= 0; --index, accumulate = true) {
      const Block block(shape, index, document_starts);
      const std::int64_t row = first_row + block.first;
      const HeadRows<T> out(tensors.out, row, head, head_dim), dout(gradients.dout, row, head, head_dim);
      copy_rows(HeadRows<T>(tensors.q, row, head, head_dim), block.queries, head_dim, scale, scratch.q);
      copy_rows(dout, block.queries, head_dim, 1.0F, scratch.dout);
      transpose_rows(scratch.q, block.queries, words, scratch.q_transposed);
      transpose_rows(scratch.dout, block.queries, words, scratch.dout_transposed);
      if constexpr (kTwo) {
        pair_rows(scratch.q, block.queries, words, scratch.q_across);
        pair_rows(scratch.dout, block.queries, words, scratch.dout_across);
      }
      const float* log_sum_exp = tensors.log_sum_exp.f32() + (sequence * shape.heads + head) * seq + block.first;
      std::fill_n(scratch.log_sum_exp, kTile, 0.0F);
      std::fill_n(scratch.delta, kTile, 0.0F);
      for (std::int64_t i = 0; i < block.queries; ++i) {
        if (i + kRowsAhead < block.queries) prefetch_row<0>(out, i + kRowsAhead, head_dim);
        scratch.log_sum_exp[i] = log_sum_exp[i];
        scratch.delta[i] = sum_vectors(head_dim, [&](std::int64_t j, auto lanes) {
          return lanes.load(out.data + i * out.stride + j) * lanes.load(dout.data + i * dout.stride + j);
        });
      }
      for (std::int64_t first = block.first_tile(); first < block.keys(); first += kTile) {
        const KeyTile tile(block, first);
        key_query_products<kTwo>(tile, block, scratch.k, scratch.q_transposed, words, scratch.p);
        key_query_products<kTwo>(tile, block, scratch.v, scratch.dout_transposed, words, scratch.ds);
        score_gradients(tile, block, scale, scratch);
        add_to_keys<T>(tile, block, scratch.p, scratch.dout_across, dim, accumulate, scratch.dv);
        add_to_keys<T>(tile, block, scratch.ds, scratch.q_across, dim, accumulate, scratch.dk);
        add_to_queries<T>(tile, block, scratch.ds_across, scratch.k_across, dim, scratch.dq);
      }
      write_rows(scratch.dq, block.queries, head_dim, scale, HeadRows<T>(gradients.dq, row, head, head_dim));
      workers.progress();
    }
  }
  // Queries in pairs aren't scaled, so dk is.
  const float scale_of_keys = kTwo ? scale : 1.0F;
  write_rows(scratch.dk, seq, head_dim, scale_of_keys, HeadRows<T>(gradients.dk, first_row, kv_head, head_dim));
  write_rows(scratch.dv, seq, head_dim, 1.0F, HeadRows<T>(gradients.dv, first_row, kv_head, head_dim));
}

// Calls visit with the element type that attention uses for these matrices, given the unit that multiplies bf16.
template <class Visit>
void with_tiles_of(PackedUnit unit, DType dtype, const Visit& visit) {
  with_element_type(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (kHasPairs && std::is_same_v<T, bf16>) {
      if (unit == PackedUnit::pairs) return visit(std::type_identity<PairedBf16>{});
    }
    visit(type);
  });
}

template <template <class> class ScratchOf>
Scratch scratch_of(const AttentionShape& shape, DType dtype, PackedUnit bf16) {
  Scratch scratch{};
  with_tiles_of(bf16, dtype,
                [&]<class T>(std::type_identity<T>) { scratch.worker_bytes = ScratchOf<T>(shape, nullptr).bytes; });
  return scratch;
}

}  // namespace

void attention_forward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                       PackedUnit bf16) {
  const DType dtype = common_dtype(tensors.q, tensors.k, tensors.v, tensors.out);
  with_tiles_of(bf16, dtype, [&]<class T>(std::type_identity<T>) {
    workers.run(shape.batch * shape.kv_heads * forward_parts(shape),
                [&](std::int64_t chunk) { forward_chunk<T>(workers, shape, tensors, chunk); });
  });
}

Scratch attention_forward_scratch(const AttentionShape& shape, DType dtype, PackedUnit bf16) {
  return scratch_of<ForwardScratch>(shape, dtype, bf16);
}

void attention_backward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                        const AttentionGradients& gradients, PackedUnit bf16) {
  const DType dtype = common_dtype(tensors.q, tensors.k, tensors.v, tensors.out, gradients.dout, gradients.dq,
                                   gradients.dk, gradients.dv);
  with_tiles_of(bf16, dtype, [&]<class T>(std::type_identity<T>) {
    workers.run(shape.batch * shape.kv_heads, [&](std::int64_t chunk) {
      backward_head<T>(workers, shape, tensors, gradients, chunk / shape.kv_heads, chunk % shape.kv_heads);
    });
  });
}

Scratch attention_backward_scratch(const AttentionShape& shape, DType dtype, PackedUnit bf16) {
  return scratch_of<BackwardScratch>(shape, dtype, bf16);
}

}  // namespace weft::cpu
