// Attention over a cache; see attention.h.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {
namespace {

// A head's part of a token is a few cache lines, far from the next token's part. Hardware prefetchers don't recognise
// this pattern, so the data needed this many tokens later is fetched.
constexpr std::int64_t kTokensAhead = 8;

template <class T>
void fetch(const T* token, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; i += kLine<T>) __builtin_prefetch(token + i);
}

// scores[p] = scale·q·k_p for p < visible, then exp(score − largest); returns their sum.
template <class T>
float weigh_keys(const T* q, const T* keys, std::int64_t stride, std::int64_t visible, std::int64_t dim, float scale,
                 float* scores) {
  for (std::int64_t p = 0; p < visible; ++p) {
    const T* k = keys + p * stride;
    fetch(keys + std::min(p + kTokensAhead, visible - 1) * stride, dim);
    scores[p] =
        scale * sum_vectors(dim, [&](std::int64_t i, auto lanes) { return lanes.load(q + i) * lanes.load(k + i); });
  }
  const float top = max_of(scores, visible);
  return sum_vectors(visible, [&](std::int64_t i, auto lanes) {
    const Floats e = lanes.fill(softmax_exp(lanes.load(scores + i) - top), 0.0F);
    lanes.store(scores + i, e);
    return e;
  });
}

// out = Σ weights[p]·v_p / total over p < visible, with as many concurrent sums as registers hold.
template <class T>
void average_values(const float* weights, float total, const T* values, std::int64_t stride, std::int64_t visible,
                    std::int64_t dim, T* out) {
  constexpr std::int64_t kTogether = 4;
  std::int64_t begin = 0;
  for (; begin + kTogether * kLanes <= dim; begin += kTogether * kLanes) {
    Floats sums[kTogether] = {};
    for (std::int64_t p = 0; p < visible; ++p) {
      const T* value = values + p * stride + begin;
      fetch(values + std::min(p + kTokensAhead, visible - 1) * stride + begin, kTogether * kLanes);
#pragma GCC unroll 4
      for (int v = 0; v < kTogether; ++v) sums[v] += weights[p] * load(value + v * kLanes);
    }
    for (int v = 0; v < kTogether; ++v) store(out + begin + v * kLanes, sums[v] / total);
  }
  for_vectors(dim - begin, [&](std::int64_t i, auto lanes) {
    Floats sum{};
    for (std::int64_t p = 0; p < visible; ++p) sum += weights[p] * lanes.load(values + p * stride + begin + i);
    lanes.store(out + begin + i, sum / total);
  });
}

}  // namespace

void cache_store(Workers& workers, std::int64_t batch, std::int64_t seq, std::int64_t context, const Matrix& x,
                 const Matrix& cache) {
  with_element_type(common_dtype(x, cache), [&]<class T>(std::type_identity<T>) {
    for_rows(workers, batch * seq, x.cols, [&](std::int64_t row) {
      std::copy_n(elements<T>(x, row), x.cols, elements<T>(cache, row / seq * context + row % seq));
    });
  });
}

void attention_decode(Workers& workers, const DecodeShape& shape, std::int64_t position, const DecodeTensors& tensors) {
  if (position < 0 || position >= shape.context) {
    throw RuntimeFault(fmt::format("position {} is outside the cache of {} tokens", position, shape.context));
  }
  const DType dtype = common_dtype(tensors.q, tensors.k, tensors.v, tensors.k_cache, tensors.v_cache, tensors.out);
  with_element_type(dtype, [&]<class T>(std::type_identity<T>) {
    const std::int64_t dim = shape.head_dim, group = shape.heads / shape.kv_heads, visible = shape.visible(position);
    const std::int64_t first = position + 1 - visible;
    workers.run(shape.batch * shape.kv_heads, [&](std::int64_t chunk) {
      const std::int64_t sequence = chunk / shape.kv_heads, kv_head = chunk % shape.kv_heads;
      T* keys = elements<T>(tensors.k_cache, sequence * shape.context) + kv_head * dim;
      T* values = elements<T>(tensors.v_cache, sequence * shape.context) + kv_head * dim;
      const std::int64_t key_stride = tensors.k_cache.row_stride, value_stride = tensors.v_cache.row_stride;
      std::copy_n(elements<T>(tensors.k, sequence) + kv_head * dim, dim, keys + position * key_stride);
      std::copy_n(elements<T>(tensors.v, sequence) + kv_head * dim, dim, values + position * value_stride);
      ScratchParts parts(workers.worker_scratch());
      float* scores = parts.floats(shape.context);
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const float total = weigh_keys(elements<T>(tensors.q, sequence) + head * dim, keys + first * key_stride,
                                       key_stride, visible, dim, score_factor(shape.scale, dim), scores);
        average_values(scores, total, values + first * value_stride, value_stride, visible, dim,
                       elements<T>(tensors.out, sequence) + head * dim);
      }
    });
  });
}

Scratch attention_decode_scratch(const DecodeShape& shape) {
  return {ScratchParts::bytes(shape.context), 0};
}

}  // namespace weft::cpu
