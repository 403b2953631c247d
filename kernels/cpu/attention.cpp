// Tiled causal attention; see attention.h.
//
// A tile is 64 keys by 64 queries, with the queries in the lanes of vectors: maxima and sums over keys are then sums of
// vectors, each key and value is a scalar that multiplies a vector of queries, and only the blocks of queries (and of
// dout) need to be transposed. On the diagonal, groups of kLanes keys skip the queries that don't see them.
#include "kernels/cpu/attention.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/block_transpose.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kTile = 64;  // queries of a block, keys of a tile
constexpr std::int64_t kVectors = kTile / kLanes;

// Head dimension in whole vectors.
std::int64_t padded(const AttentionShape& shape) {
  return round_up(shape.head_dim, kLanes);
}

float scale_of(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

// One head's rows beginning at `row`.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;

  HeadRows(const Matrix& matrix, std::int64_t row, std::int64_t head, std::int64_t head_dim)
      : data(elements<T>(matrix, row) + head * head_dim), stride(matrix.row_stride) {}
};

// A head's row is a few lines out of a row of all heads: too short for the prefetchers of the hardware.
template <int kWrite, class T>
void prefetch_row(const HeadRows<T>& head, std::int64_t row, std::int64_t dim) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < dim; i += kLine) __builtin_prefetch(head.data + row * head.stride + i, kWrite);
}
constexpr std::int64_t kRowsAhead = 8;

// to[rows, padded] = scale·from, with zeros behind the head dimension: contiguous rows don't compete for cache sets.
template <class T>
void copy_rows(const HeadRows<T>& from, std::int64_t rows, std::int64_t dim, float scale, float* to) {
  const std::int64_t to_stride = round_up(dim, kLanes);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row + kRowsAhead < rows) prefetch_row<0>(from, row + kRowsAhead, dim);
    for_vectors(dim, [&](std::int64_t i, auto lanes) {
      store(to + row * to_stride + i, scale * lanes.load(from.data + row * from.stride + i));
    });
  }
}

// The other way: to[rows, dim] = scale·from[rows, padded], rounded to T.
template <class T>
void write_rows(const float* from, std::int64_t rows, std::int64_t dim, float scale, const HeadRows<T>& to) {
  const std::int64_t from_stride = round_up(dim, kLanes);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row + kRowsAhead < rows) prefetch_row<1>(to, row + kRowsAhead, dim);
    for_vectors(dim, [&](std::int64_t i, auto lanes) {
      lanes.store(to.data + row * to.stride + i, scale * load(from + row * from_stride + i));
    });
  }
}

// to[padded, kTile] = transpose of from[rows, padded]; columns up to the next whole vector become zero.
void transpose_rows(const float* from, std::int64_t rows, std::int64_t cols, float* to) {
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    for (std::int64_t col = 0; col < cols; col += kLanes) {
      std::array<Floats, kLanes> block{};
      const auto present = static_cast<std::size_t>(std::min(kLanes, rows - row));
      for (std::size_t i = 0; i < present; ++i) {
        block[i] = load(from + (row + static_cast<std::int64_t>(i)) * cols + col);
      }
      transpose(block);
      for (std::size_t i = 0; i < kLanes; ++i) store(to + (col + static_cast<std::int64_t>(i)) * kTile + row, block[i]);
    }
  }
}

// Queries first … first + queries − 1 of one sequence.
struct Block {
  std::int64_t first, queries;

  Block(std::int64_t seq, std::int64_t index) : first(index * kTile), queries(std::min(kTile, seq - first)) {}
  std::int64_t vectors() const { return ceil_div(queries, kLanes); }
  std::int64_t keys() const { return first + queries; }  // that its last query sees
};

// Keys first … first + keys − 1 against a block of queries.
struct KeyTile {
  std::int64_t first, keys;
  bool diagonal;

  KeyTile(const Block& block, std::int64_t first_key)
      : first(first_key), keys(std::min(kTile, block.keys() - first)), diagonal(first == block.first) {}
  // Keys that some query of vector `v` sees.
  std::int64_t visible(std::int64_t v) const { return diagonal ? std::min(keys, (v + 1) * kLanes) : keys; }
};

// Lanes of vector `v` whose query stands before the diagonal tile's key `key`.
Ints hidden_lanes(std::int64_t key, std::int64_t v) {
  return lane_numbers() < static_cast<std::int32_t>(key - v * kLanes);
}

// tile[keys, queries] = rows[keys, dim]·columns[dim, queries], where a query may see the key.
void key_query_products(const KeyTile& tile, const Block& block, const float* rows, const float* columns,
                        std::int64_t dim, std::int64_t row_stride, float* products) {
  const TileProduct whole{rows + tile.first * row_stride, row_stride, 1, columns, kTile, products, kTile, dim, false};
  if (!tile.diagonal) return multiply_tile(whole, tile.keys, block.vectors());
  for (std::int64_t v = 0; v < block.vectors(); ++v) {
    const std::int64_t key = v * kLanes;
    TileProduct part = whole;
    part.a += key * row_stride, part.b += key, part.c += key * kTile + key;
    multiply_tile(part, std::min(kLanes, tile.keys - key), block.vectors() - v);
  }
}

// --- forward

struct ForwardScratch {
  float *k, *v, *queries, *transposed, *tile, *sums;

  ForwardScratch(const AttentionShape& shape, std::byte* begin) {
    ScratchParts parts(begin);
    const std::int64_t dim = padded(shape);
    k = parts.floats(shape.seq * dim), v = parts.floats(shape.seq * dim);
    queries = parts.floats(kTile * dim), transposed = parts.floats(kTile * dim);
    tile = parts.floats(kTile * kTile), sums = parts.floats(kTile * dim);
  }
  static std::size_t bytes(const AttentionShape& shape) {
    const std::int64_t dim = padded(shape);
    return 2 * ScratchParts::bytes(shape.seq * dim) + 3 * ScratchParts::bytes(kTile * dim) +
           ScratchParts::bytes(kTile * kTile);
  }
};

// The running softmax of a block of queries (Milakov and Gimelshein 2018, arXiv:1805.02867).
struct Softmax {
  Floats largest[kVectors], total[kVectors];

  Softmax() {
    for (Floats& value : largest) value = broadcast(-std::numeric_limits<float>::infinity());
    for (Floats& value : total) value = Floats{};
  }

  // Scores of vector `v` become exp(score − largest). Returns what earlier sums have to be multiplied by.
  Floats add(const KeyTile& tile, std::int64_t v, float* scores) {
    const std::int64_t visible = tile.visible(v);
    float* column = scores + v * kLanes;
    for (std::int64_t key = tile.diagonal ? v * kLanes : visible; key < visible; ++key) {
      const Floats score = load(column + key * kTile);
      store(column + key * kTile,
            hidden_lanes(key, v) != 0 ? broadcast(-std::numeric_limits<float>::infinity()) : score);
    }
    Floats a = largest[v], b = a, c = a, d = a;
    std::int64_t key = 0;
    for (; key + 4 <= visible; key += 4) {
      const float* four = column + key * kTile;
      a = max(load(four), a), b = max(load(four + kTile), b);
      c = max(load(four + 2 * kTile), c), d = max(load(four + 3 * kTile), d);
    }
    for (; key < visible; ++key) a = max(load(column + key * kTile), a);
    const Floats top = max(max(a, b), max(c, d)), correction = softmax_exp(largest[v] - top);
    Floats even{}, odd{};
    for (key = 0; key + 2 <= visible; key += 2) {
      float* two = column + key * kTile;
      const Floats first = softmax_exp(load(two) - top), second = softmax_exp(load(two + kTile) - top);
      store(two, first), store(two + kTile, second);
      even += first, odd += second;
    }
    if (key < visible) {
      const Floats last = softmax_exp(load(column + key * kTile) - top);
      store(column + key * kTile, last);
      even += last;
    }
    largest[v] = top;
    total[v] = total[v] * correction + (even + odd);
    return correction;
  }
};

// One block of one query head, over copies of its keys and values.
template <class T>
void forward_block(const AttentionShape& shape, const Block& block, const HeadRows<T>& q, const HeadRows<T>& out,
                   float* lse, const ForwardScratch& scratch) {
  const std::int64_t dim = padded(shape), vectors = block.vectors();
  copy_rows(q, block.queries, shape.head_dim, scale_of(shape), scratch.queries);
  transpose_rows(scratch.queries, block.queries, dim, scratch.transposed);
  Softmax softmax;
  for (std::int64_t first = 0; first < block.keys(); first += kTile) {
    const KeyTile tile(block, first);
    key_query_products(tile, block, scratch.k, scratch.transposed, dim, dim, scratch.tile);
    for (std::int64_t v = 0; v < vectors; ++v) {
      const Floats correction = softmax.add(tile, v, scratch.tile);
      if (first == 0) continue;
      for (std::int64_t i = 0; i < dim; ++i) {
        float* sums = scratch.sums + i * kTile + v * kLanes;
        store(sums, load(sums) * correction);
      }
    }
    // sums[dim, queries] += values[keys, dim]ᵀ·probabilities[keys, queries]
    const TileProduct whole{
        scratch.v + first * dim, 1, dim, scratch.tile, kTile, scratch.sums, kTile, tile.keys, first > 0};
    if (!tile.diagonal) {
      multiply_tile(whole, dim, vectors);
      continue;
    }
    for (std::int64_t v = 0; v < vectors; ++v) {
      const std::int64_t key = v * kLanes;
      TileProduct part = whole;
      part.a += key * dim, part.b += key * kTile + key, part.c += key;
      part.depth = std::min(kLanes, tile.keys - key);
      part.accumulate = first > 0 || v > 0;
      multiply_tile(part, dim, vectors - v);
    }
  }
  for (std::int64_t v = 0; v < vectors; ++v) {
    const Floats inverse = 1.0F / softmax.total[v];
    const std::int64_t present = std::min(kLanes, block.queries - v * kLanes);
    for (std::int64_t lane = 0; lane < present; ++lane) {
      lse[v * kLanes + lane] = softmax.largest[v][lane] + std::log(softmax.total[v][lane]);
    }
    for (std::int64_t col = 0; col < dim; col += kLanes) {
      std::array<Floats, kLanes> rows;
      for (std::size_t i = 0; i < kLanes; ++i) {
        rows[i] = load(scratch.sums + (col + static_cast<std::int64_t>(i)) * kTile + v * kLanes) * inverse;
      }
      transpose(rows);
      for (std::int64_t lane = 0; lane < present; ++lane) {
        if (v * kLanes + lane + kRowsAhead < block.queries)
          prefetch_row<1>(out, v * kLanes + lane + kRowsAhead, kLanes);
        T* to = out.data + (v * kLanes + lane) * out.stride + col;
        const Floats row = rows[static_cast<std::size_t>(lane)];
        if (col + kLanes <= shape.head_dim) {
          store(to, row);
        } else {
          store_partial(to, row, shape.head_dim - col);
        }
      }
    }
  }
}

// Chunks are KV heads, cut further where heads are few: each part takes every so-many'th block of queries and makes
// its own copy of keys and values.
std::int64_t forward_parts(const AttentionShape& shape) {
  constexpr std::int64_t kChunks = 32;
  return std::clamp<std::int64_t>(ceil_div(kChunks, shape.batch * shape.kv_heads), 1, ceil_div(shape.seq, kTile));
}

template <class T>
void forward_chunk(const AttentionShape& shape, const AttentionTensors& tensors, std::int64_t chunk,
                   std::byte* scratch_bytes) {
  const std::int64_t heads = shape.batch * shape.kv_heads, parts = forward_parts(shape);
  const std::int64_t sequence = chunk % heads / shape.kv_heads, kv_head = chunk % shape.kv_heads;
  const std::int64_t first_row = sequence * shape.seq, dim = shape.head_dim;
  const ForwardScratch scratch(shape, scratch_bytes);
  // The last blocks are the longest: their parts go first, so that workers end together.
  const std::int64_t last = ceil_div(shape.seq, kTile) - 1 - chunk / heads;
  const std::int64_t keys = Block(shape.seq, last).keys();
  copy_rows(HeadRows<T>(tensors.k, first_row, kv_head, dim), keys, dim, 1.0F, scratch.k);
  copy_rows(HeadRows<T>(tensors.v, first_row, kv_head, dim), keys, dim, 1.0F, scratch.v);
  for (std::int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (std::int64_t index = last; index >= 0; index -= parts) {
      const Block block(shape.seq, index);
      const std::int64_t row = first_row + block.first;
      forward_block(shape, block, HeadRows<T>(tensors.q, row, head, dim), HeadRows<T>(tensors.out, row, head, dim),
                    tensors.lse.f32() + (sequence * shape.heads + head) * shape.seq + block.first, scratch);
    }
  }
}

// --- backward

struct BackwardScratch {
  float *k, *v, *dk, *dv, *q, *dout, *q_transposed, *dout_transposed, *dq, *p, *ds, *lse, *delta;

  BackwardScratch(const AttentionShape& shape, std::byte* begin) {
    ScratchParts parts(begin);
    const std::int64_t dim = padded(shape);
    for (float** whole : {&k, &v, &dk, &dv}) *whole = parts.floats(shape.seq * dim);
    for (float** block : {&q, &dout, &q_transposed, &dout_transposed, &dq}) *block = parts.floats(kTile * dim);
    for (float** tile : {&p, &ds}) *tile = parts.floats(kTile * kTile);
    for (float** row : {&lse, &delta}) *row = parts.floats(kTile);
  }
  static std::size_t bytes(const AttentionShape& shape) {
    const std::int64_t dim = padded(shape);
    return 4 * ScratchParts::bytes(shape.seq * dim) + 5 * ScratchParts::bytes(kTile * dim) +
           2 * ScratchParts::bytes(kTile * kTile) + 2 * ScratchParts::bytes(kTile);
  }
};

// p: scores S → P = exp(S − lse); ds: dP → P·(dP − delta), both zero where a query doesn't see the key.
void score_gradients(const KeyTile& tile, const Block& block, const BackwardScratch& scratch) {
  for (std::int64_t v = 0; v < block.vectors(); ++v) {
    const Floats lse = load(scratch.lse + v * kLanes), delta = load(scratch.delta + v * kLanes);
    const std::int64_t visible = tile.visible(v), crossed = tile.diagonal ? std::min(visible, v * kLanes) : visible;
    float* p = scratch.p + v * kLanes;
    float* ds = scratch.ds + v * kLanes;
    for (std::int64_t key = 0; key < crossed; ++key) {
      const Floats probability = softmax_exp(load(p + key * kTile) - lse);
      store(p + key * kTile, probability);
      store(ds + key * kTile, probability * (load(ds + key * kTile) - delta));
    }
    for (std::int64_t key = crossed; key < visible; ++key) {
      const Floats all = softmax_exp(load(p + key * kTile) - lse);
      const Floats probability = hidden_lanes(key, v) != 0 ? Floats{} : all;
      store(p + key * kTile, probability);
      store(ds + key * kTile, probability * (load(ds + key * kTile) - delta));
    }
  }
}

// sums[keys, dim] (+)= tile[keys, queries]·rows[queries, dim], over the queries that see a key.
void add_to_keys(const KeyTile& tile, const Block& block, const float* scores, const float* rows, std::int64_t dim,
                 bool accumulate, float* sums) {
  const TileProduct whole{scores, kTile, 1, rows, dim, sums + tile.first * dim, dim, block.queries, accumulate};
  if (!tile.diagonal) return multiply_tile(whole, tile.keys, dim / kLanes);
  for (std::int64_t key = 0; key < tile.keys; key += kLanes) {
    TileProduct part = whole;
    part.a += key * kTile + key, part.b += key * dim, part.c += key * dim;
    part.depth -= key;
    multiply_tile(part, std::min(kLanes, tile.keys - key), dim / kLanes);
  }
}

// sums[queries, dim] (+)= tile[keys, queries]ᵀ·rows[keys, dim], over the keys that a query sees.
void add_to_queries(const KeyTile& tile, const Block& block, const float* scores, const float* rows, std::int64_t dim,
                    float* sums) {
  const TileProduct whole{scores, 1, kTile, rows + tile.first * dim, dim, sums, dim, tile.keys, tile.first > 0};
  if (!tile.diagonal) return multiply_tile(whole, block.queries, dim / kLanes);
  for (std::int64_t v = 0; v < block.vectors(); ++v) {
    const std::int64_t query = v * kLanes;
    TileProduct part = whole;
    part.a += query, part.c += query * dim;
    part.depth = tile.visible(v);
    multiply_tile(part, std::min(kLanes, block.queries - query), dim / kLanes);
  }
}

// All query blocks and heads of one KV head of one sequence.
template <class T>
void backward_head(const AttentionShape& shape, const AttentionTensors& tensors, const AttentionGradients& gradients,
                   std::int64_t sequence, std::int64_t kv_head, std::byte* scratch_bytes) {
  const std::int64_t head_dim = shape.head_dim, dim = padded(shape), seq = shape.seq, first_row = sequence * seq;
  const BackwardScratch scratch(shape, scratch_bytes);
  copy_rows(HeadRows<T>(tensors.k, first_row, kv_head, head_dim), seq, head_dim, 1.0F, scratch.k);
  copy_rows(HeadRows<T>(tensors.v, first_row, kv_head, head_dim), seq, head_dim, 1.0F, scratch.v);
  // The last block sees all keys: going backwards, the first products write every row and the others add.
  bool accumulate = false;
  for (std::int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (std::int64_t index = ceil_div(seq, kTile) - 1; index >= 0; --index, accumulate = true) {
      const Block block(seq, index);
      const std::int64_t row = first_row + block.first;
      const HeadRows<T> out(tensors.out, row, head, head_dim);
      copy_rows(HeadRows<T>(tensors.q, row, head, head_dim), block.queries, head_dim, scale_of(shape), scratch.q);
      copy_rows(HeadRows<T>(gradients.dout, row, head, head_dim), block.queries, head_dim, 1.0F, scratch.dout);
      transpose_rows(scratch.q, block.queries, dim, scratch.q_transposed);
      transpose_rows(scratch.dout, block.queries, dim, scratch.dout_transposed);
      const float* lse = tensors.lse.f32() + (sequence * shape.heads + head) * seq + block.first;
      std::fill_n(scratch.lse, kTile, 0.0F);
      std::fill_n(scratch.delta, kTile, 0.0F);
      for (std::int64_t i = 0; i < block.queries; ++i) {
        if (i + kRowsAhead < block.queries) prefetch_row<0>(out, i + kRowsAhead, head_dim);
        scratch.lse[i] = lse[i];
        scratch.delta[i] = sum_vectors(head_dim, [&](std::int64_t j, auto lanes) {
          return lanes.load(out.data + i * out.stride + j) * lanes.load(scratch.dout + i * dim + j);
        });
      }
      for (std::int64_t first = 0; first < block.keys(); first += kTile) {
        const KeyTile tile(block, first);
        key_query_products(tile, block, scratch.k, scratch.q_transposed, dim, dim, scratch.p);
        key_query_products(tile, block, scratch.v, scratch.dout_transposed, dim, dim, scratch.ds);
        score_gradients(tile, block, scratch);
        add_to_keys(tile, block, scratch.p, scratch.dout, dim, accumulate, scratch.dv);
        add_to_keys(tile, block, scratch.ds, scratch.q, dim, accumulate, scratch.dk);
        add_to_queries(tile, block, scratch.ds, scratch.k, dim, scratch.dq);
      }
      write_rows(scratch.dq, block.queries, head_dim, scale_of(shape), HeadRows<T>(gradients.dq, row, head, head_dim));
    }
  }
  write_rows(scratch.dk, seq, head_dim, 1.0F, HeadRows<T>(gradients.dk, first_row, kv_head, head_dim));
  write_rows(scratch.dv, seq, head_dim, 1.0F, HeadRows<T>(gradients.dv, first_row, kv_head, head_dim));
}

}  // namespace

void attention_forward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    workers.run(shape.batch * shape.kv_heads * forward_parts(shape),
                [&](std::int64_t chunk) { forward_chunk<T>(shape, tensors, chunk, workers.worker_scratch()); });
  };
  with_element_type(run, tensors.q, tensors.k, tensors.v, tensors.out);
}

Scratch attention_forward_scratch(const AttentionShape& shape, DType /*dtype*/) {
  return {ForwardScratch::bytes(shape), 0};
}

void attention_backward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                        const AttentionGradients& gradients) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    workers.run(shape.batch * shape.kv_heads, [&](std::int64_t chunk) {
      backward_head<T>(shape, tensors, gradients, chunk / shape.kv_heads, chunk % shape.kv_heads,
                       workers.worker_scratch());
    });
  };
  with_element_type(run, tensors.q, tensors.k, tensors.v, tensors.out, gradients.dout, gradients.dq, gradients.dk,
                    gradients.dv);
}

Scratch attention_backward_scratch(const AttentionShape& shape, DType /*dtype*/) {
  return {BackwardScratch::bytes(shape), 0};
}

}  // namespace weft::cpu
