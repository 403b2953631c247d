// Attention over a cache; see attention.h. A block processes one head of one sequence and iterates over the
// positions in tiles, with a running maximum (Milakov and Gimelshein 2018, arXiv:1805.02867).
#include <cmath>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;  // also the number of positions in a tile: each thread computes one weight
constexpr int kWarps = kThreads / kWarp;

template <class T, int kWidth>
struct CacheRows : ItemWork {
  struct Item {
    Raw<T, kWidth> raw;
  };

  Stream<const T> x;
  Stream<T> cache;
  std::int64_t seq, context;

  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
    item.raw = fetch<kWidth>(x.at(row, column));
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    const Place of = place_of(row, seq);
    store(cache.at(of.row * context + of.piece, column), item.raw);
  }
};

template <class T>
struct DecodeStreams {
  Stream<const T> q, k, v;
  Stream<T> k_cache, v_cache, out;
};

// `groups` groups of threads share the tile's positions for the weighted sum: each group sums its own output,
// sums[group].
template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_decode_kernel(DecodeShape shape, const std::int64_t* position_at, DecodeStreams<T> tensors, float scale,
                            int groups, Fault* fault) {
  float* const query = dynamic_shared<float>();
  __shared__ float scores[kThreads], shared[kWarp];
  const std::int64_t position = *position_at, dim = shape.head_dim;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  if (position < 0 || position >= shape.context) {
    if (thread == 0) report(fault, Fault::position_outside_table);
    return;
  }
  float* sums = query + dim;
  const std::int64_t sequence = blockIdx.x / shape.heads, head = blockIdx.x % shape.heads;
  const std::int64_t group_size = shape.heads / shape.kv_heads, kv_head = head / group_size;
  const T* new_key = tensors.k.data + sequence * tensors.k.stride + kv_head * dim;
  const T* new_value = tensors.v.data + sequence * tensors.v.stride + kv_head * dim;
  T* keys = tensors.k_cache.data + sequence * shape.context * tensors.k_cache.stride + kv_head * dim;
  T* values = tensors.v_cache.data + sequence * shape.context * tensors.v_cache.stride + kv_head * dim;
  // One of the heads that share a key stores it. No head reads it from the cache, where it may not be stored yet.
  if (head % group_size == 0) {
    for (std::int64_t i = thread; i < dim; i += kThreads) {
      keys[position * tensors.k_cache.stride + i] = new_key[i];
      values[position * tensors.v_cache.stride + i] = new_value[i];
    }
  }
  for (std::int64_t i = thread; i < dim; i += kThreads) {
    query[i] = to_float(tensors.q.data[sequence * tensors.q.stride + head * dim + i]);
  }
  for (std::int64_t i = thread; i < groups * dim; i += kThreads) sums[i] = 0.0F;
  const int per_group = kThreads / groups, group = thread / per_group;
  float top = -INFINITY, total = 0.0F;
  const std::int64_t begin = position + 1 - shape.visible(position);
  for (std::int64_t first = begin; first <= position; first += kThreads) {
    const int count = static_cast<int>(min(static_cast<std::int64_t>(kThreads), position + 1 - first));
    __syncthreads();  // the query is in shared memory; the last tile's scores are no longer read
    for (int i = warp; i < count; i += kWarps) {
      const T* key = first + i == position ? new_key : keys + (first + i) * tensors.k_cache.stride;
      float product = 0.0F;
      for (std::int64_t d = lane; d < dim; d += kWarp) product += query[d] * to_float(key[d]);
      product = warp_sum(product);
      if (lane == 0) scores[i] = scale * product;
    }
    __syncthreads();
    const float score = thread < count ? scores[thread] : -INFINITY;
    const float new_top = fmaxf(top, block_max(score, shared));
    const float weight = thread < count ? expf(score - new_top) : 0.0F;
    const float keep = first == begin ? 0.0F : expf(top - new_top);
    scores[thread] = weight;
    total = total * keep + block_sum(weight, shared);  // its barriers also make every weight visible to all threads
    top = new_top;
    for (std::int64_t d = thread - group * per_group; d < dim; d += per_group) {
      float sum = sums[group * dim + d] * keep;
      for (int i = group; i < count; i += groups) {
        const T* value = first + i == position ? new_value : values + (first + i) * tensors.v_cache.stride;
        sum += scores[i] * to_float(value[d]);
      }
      sums[group * dim + d] = sum;
    }
  }
  __syncthreads();
  T* out = tensors.out.data + sequence * tensors.out.stride + head * dim;
  for (std::int64_t d = thread; d < dim; d += kThreads) {
    float sum = 0.0F;
    for (int g = 0; g < groups; ++g) sum += sums[g * dim + d];
    out[d] = from_float<T>(sum / total);
  }
}

}  // namespace

void cache_store(const Launch& launch, std::int64_t batch, std::int64_t seq, std::int64_t context, const Matrix& x,
                 const Matrix& cache) {
  require_one_type(x, cache);
  with_pieces(x.dtype, vectorizable(x) && vectorizable(cache), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const CacheRows<T, kWidth> work{{}, stream_of<const T>(x), stream_of<T>(cache), seq, context};
    for_items<1, kWidth>(launch, "cache_store", batch * seq, x.cols, work);
  });
}

void attention_decode(const Launch& launch, const DecodeShape& shape, const std::int64_t* position,
                      const DecodeTensors& tensors) {
  require_one_type(tensors.q, tensors.k, tensors.v, tensors.k_cache, tensors.v_cache, tensors.out);
  if (shape.batch == 0 || shape.heads == 0 || shape.head_dim == 0) return;
  with_float_type(tensors.q.dtype, [&]<class T>(T*) {
    const DecodeStreams<T> streams{stream_of<const T>(tensors.q), stream_of<const T>(tensors.k),
                                   stream_of<const T>(tensors.v), stream_of<T>(tensors.k_cache),
                                   stream_of<T>(tensors.v_cache), stream_of<T>(tensors.out)};
    int groups = 1;  // a power of two, so that groups have equal sizes
    while (groups < kWarps && 2 * groups * shape.head_dim <= kThreads) groups *= 2;
    const auto bytes = static_cast<std::size_t>((groups + 1) * shape.head_dim) * sizeof(float);
    const float scale = cpu::score_factor(shape.scale, shape.head_dim);
    start("attention_decode", launch, attention_decode_kernel<T>, static_cast<unsigned>(shape.batch * shape.heads),
          kThreads, bytes, shape, position, streams, scale, groups, launch.fault);
  });
}

}  // namespace weft::cuda
