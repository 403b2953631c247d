// Attention in bf16 on tensor cores, for head dimensions 64 and 128, with the tiles of FlashAttention-2 (Dao 2023,
// arXiv:2307.08691): each warp has a few 16-row tiles. Probabilities never leave a warp's registers. Row statistics are
// fp32. With kMasked the first key that a query sees depends on a window and on documents. It never decreases from one
// query to the next, so tiles that no query of a block sees lie before the first or behind the last that one does.
#include <cmath>
#include <type_traits>

#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/attention_parts.cuh"

namespace weft::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr float kLog2E = 1.4426950408889634F;

using Element = __nv_bfloat16;

// Rows that a block owns, 16·kM for each warp, and rows that it iterates over: as many as registers hold.
template <int kMTiles, int kOtherRows>
struct Sizes {
  static constexpr int kM = kMTiles, kWarpRows = 16 * kM, kOwned = kWarps * kWarpRows, kOther = kOtherRows;
};
template <int kDim>
using ForwardSizes = Sizes<2, kDim == 64 ? 64 : 32>;
template <int kDim>
using QuerySizes = Sizes<kDim == 64 ? 2 : 1, kDim == 64 ? 32 : 64>;
template <int kDim>
using KeySizes = Sizes<kDim == 64 ? 2 : 1, 32>;

__device__ inline int warp_number() {
  return static_cast<int>(threadIdx.x) / kWarp;
}
// In row tile m of the warp, this thread has rows row_of(m, 0) and row_of(m, 1).
__device__ inline int row_of(int m, int half) {
  return 16 * m + 8 * half + static_cast<int>(threadIdx.x) % kWarp / 4;
}
// In column tile n, this thread has this column and the next.
__device__ inline int column_of(int n) {
  return 8 * n + static_cast<int>(threadIdx.x) % 4 * 2;
}

// Begins to copy kRows rows of a head from row `first` on, of two matrices.
template <int kRows, int kDim>
__device__ inline void copy_heads(const AttentionProblem& problem, const HeadRows<Element>& a,
                                  const HeadRows<Element>& b, int sequence, int head, int first, Element* to_a,
                                  Element* to_b) {
  const int rows = min(kRows, problem.seq - first);
  copy_rows<kRows, kDim, kThreads>(a.at(problem, sequence, head, first), a.stride, rows, to_a);
  copy_rows<kRows, kDim, kThreads>(b.at(problem, sequence, head, first), b.stride, rows, to_b);
}
// Writes a warp's sums times `factor`, to a head's rows from row `first` on.
template <int kDim, int kM>
__device__ inline void write_head(const AttentionProblem& problem, const HeadRows<Element>& to, int sequence, int head,
                                  int first, int present, const float (&sums)[kM][kDim / 8][4], float factor) {
  float factors[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) factors[m][0] = factors[m][1] = factor;
  write_rows<kDim>(sums, factors, present, to.at(problem, sequence, head, first), to.stride);
}

// The maximum over the four threads that share rows.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

// The first key that each query of a block sees, in shared memory: registers are few. Queries beyond the sequence see
// what its last one does.
template <bool kMasked, int kQueries>
struct FirstKeys {
  int* of_query;

  template <class Arguments>
  __device__ FirstKeys(int* memory, const AttentionProblem& problem, const Arguments& arguments, int sequence,
                       int first_query)
      : of_query(memory) {
    const int query = min(first_query + static_cast<int>(threadIdx.x), problem.seq - 1);
    static_assert(kQueries <= kThreads);
    if (kMasked && threadIdx.x < kQueries) {
      memory[threadIdx.x] = problem.first_key(arguments.document_starts, sequence, query);
    }
  }
  __device__ int operator[](int query) const { return kMasked ? of_query[query] : 0; }
};

template <int kM>
struct Softmax {
  float largest[kM][2], total[kM][2];  // of unscaled scores; this thread's part of the sum

  __device__ Softmax() {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      largest[m][0] = largest[m][1] = -INFINITY;
      total[m][0] = total[m][1] = 0.0F;
    }
  }

  // Replaces scores by exp(scale·(score − largest)) and corrects earlier sums. `scale` includes the factor log₂e. With
  // kMasked a row may see no key so far.
  template <bool kMasked, int kTiles, int kOutTiles>
  __device__ void add(float (&scores)[kM][kTiles][4], float scale, float (&sums)[kM][kOutTiles][4]) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = largest[m][half];
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
        }
        top = row_max(top);
        const float reference = kMasked && top == -INFINITY ? 0.0F : top;
        const float correction = exp2f((largest[m][half] - reference) * scale), offset = reference * scale;
        float sum = total[m][half] * correction;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[m][n][i] = exp2f(fmaf(scores[m][n][i], scale, -offset));
            sum += scores[m][n][i];
          }
        }
        largest[m][half] = top;
        total[m][half] = sum;
#pragma unroll
        for (int n = 0; n < kOutTiles; ++n) {
          sums[m][n][2 * half] *= correction;
          sums[m][n][2 * half + 1] *= correction;
        }
      }
    }
  }
};

// --- forward

template <int kDim>
constexpr std::size_t forward_bytes() {
  using Size = ForwardSizes<kDim>;
  return (Size::kOwned + 4 * Size::kOther) * kTileStride<kDim> * sizeof(Element) + Size::kOwned * sizeof(int);
}

// One tile of queries of one head, over the tiles of keys that it sees; meanwhile the next tile is copied.
template <int kDim, bool kMasked>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(AttentionProblem problem, ForwardArguments<Element> arguments) {
  using Size = ForwardSizes<kDim>;
  constexpr int kM = Size::kM, kKeys = Size::kOther, kTile = kKeys * kTileStride<kDim>;
  auto* const shared = dynamic_shared<uint4>();
  Element* queries = reinterpret_cast<Element*>(shared);
  Element* keys = queries + Size::kOwned * kTileStride<kDim>;  // two tiles
  Element* values = keys + 2 * kTile;                          // two tiles

  const TileOfHead index(problem.batch, problem.heads);
  // The last tile sees the most keys and goes first, so that all blocks end together.
  const int block_query = (tiles_of(problem.seq, Size::kOwned) - 1 - index.tile) * Size::kOwned;
  const int present = min(Size::kOwned, problem.seq - block_query), kv_head = index.head / problem.group();
  const auto copy_tile = [&](int tile) {
    copy_heads<kKeys, kDim>(problem, arguments.k, arguments.v, index.sequence, kv_head, tile * kKeys,
                            keys + tile % 2 * kTile, values + tile % 2 * kTile);
  };
  copy_rows<Size::kOwned, kDim, kThreads>(arguments.q.at(problem, index.sequence, index.head, block_query),
                                          arguments.q.stride, present, queries);
  const FirstKeys<kMasked, Size::kOwned> begins(reinterpret_cast<int*>(values + 2 * kTile), problem, arguments,
                                                index.sequence, block_query);
  int tile = kMasked ? problem.first_key(arguments.document_starts, index.sequence, block_query) / kKeys : 0;
  copy_tile(tile);
  commit_copies();

  const int warp_row = warp_number() * Size::kWarpRows, first_query = block_query + warp_row;
  const float scale = problem.scale * kLog2E;
  Accumulators<kM, kDim> sums;
  clear(sums);
  Softmax<kM> softmax;
  const int tiles = tiles_of(block_query + present, kKeys);
  for (; tile < tiles; ++tile) {
    if (tile + 1 < tiles) copy_tile(tile + 1);
    commit_copies();  // an empty group after the last tile, so that the wait below counts groups correctly
    wait_for_copies<1>();
    __syncthreads();
    const int first_key = tile * kKeys;
    // A query of this warp sees a key.
    if (first_key < first_query + Size::kWarpRows && begins[warp_row] < first_key + kKeys) {
      Accumulators<kM, kKeys> scores;
      multiply<kDim>(queries + warp_row * kTileStride<kDim>, keys + tile % 2 * kTile, scores);
      if (first_key + kKeys - 1 > first_query || first_key < begins[warp_row + Size::kWarpRows - 1]) {
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          const int of_row[] = {begins[warp_row + row_of(m, 0)], begins[warp_row + row_of(m, 1)]};
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int key = first_key + column_of(n) + i % 2;
              if (key > first_query + row_of(m, i / 2) || key < of_row[i / 2]) scores[m][n][i] = -INFINITY;
            }
          }
        }
      }
      softmax.template add<kMasked>(scores, scale, sums);
      add_products<kDim>(scores, values + tile % 2 * kTile, sums);
    }
    __syncthreads();  // before the next copies overwrite this tile
  }

  float factors[kM][2];
  float* log_sum_exp = arguments.log_sum_exp + problem.statistics(index.sequence, index.head);
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = row_sum(softmax.total[m][half]);
      const int query = first_query + row_of(m, half);
      factors[m][half] = 1.0F / total;
      if (query < problem.seq && threadIdx.x % 4 == 0) {
        log_sum_exp[query] = softmax.largest[m][half] * problem.scale + logf(total);
      }
    }
  }
  write_rows<kDim>(sums, factors, present - warp_row,
                   arguments.out.at(problem, index.sequence, index.head, first_query), arguments.out.stride);
}

// --- backward

template <int kDim>
constexpr std::size_t query_bytes() {
  using Size = QuerySizes<kDim>;
  return (2 * Size::kOwned + 4 * Size::kOther) * kTileStride<kDim> * sizeof(Element) + Size::kOwned * sizeof(int);
}
template <int kDim>
constexpr std::size_t key_bytes() {
  return (2 * KeySizes<kDim>::kOwned + 4 * KeySizes<kDim>::kOther) * kTileStride<kDim> * sizeof(Element) +
         6 * KeySizes<kDim>::kOther * sizeof(float);
}

// dq of one tile of queries of one head: dq = scale·Σ dS·k with dS = P·(dout·vᵀ − delta), P = exp(scores −
// log_sum_exp).
template <int kDim, bool kMasked>
__global__ void __launch_bounds__(kThreads)
    query_gradients_kernel(AttentionProblem problem, BackwardArguments<Element> arguments) {
  using Size = QuerySizes<kDim>;
  constexpr int kM = Size::kM, kKeys = Size::kOther, kTile = kKeys * kTileStride<kDim>;
  auto* const shared = dynamic_shared<uint4>();
  Element* q = reinterpret_cast<Element*>(shared);
  Element* dout = q + Size::kOwned * kTileStride<kDim>;
  Element* keys = dout + Size::kOwned * kTileStride<kDim>;  // two tiles
  Element* values = keys + 2 * kTile;                       // two tiles

  const TileOfHead index(problem.batch, problem.heads);
  const int block_query = (tiles_of(problem.seq, Size::kOwned) - 1 - index.tile) * Size::kOwned;
  const int present = min(Size::kOwned, problem.seq - block_query), kv_head = index.head / problem.group();
  const auto copy_tile = [&](int tile) {
    copy_heads<kKeys, kDim>(problem, arguments.k, arguments.v, index.sequence, kv_head, tile * kKeys,
                            keys + tile % 2 * kTile, values + tile % 2 * kTile);
  };
  copy_heads<Size::kOwned, kDim>(problem, arguments.q, arguments.dout, index.sequence, index.head, block_query, q,
                                 dout);
  const FirstKeys<kMasked, Size::kOwned> begins(reinterpret_cast<int*>(values + 2 * kTile), problem, arguments,
                                                index.sequence, block_query);
  int tile = kMasked ? problem.first_key(arguments.document_starts, index.sequence, block_query) / kKeys : 0;
  copy_tile(tile);
  commit_copies();

  const int warp_row = warp_number() * Size::kWarpRows, first_query = block_query + warp_row;
  const float scale = problem.scale * kLog2E;
  float log_sum_exp[kM][2], delta[kM][2];  // log_sum_exp is multiplied by log₂e
  const std::int64_t statistics = problem.statistics(index.sequence, index.head);
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + row_of(m, half);
      log_sum_exp[m][half] = query < problem.seq ? arguments.log_sum_exp[statistics + query] * kLog2E : 0.0F;
      delta[m][half] = query < problem.seq ? arguments.delta[statistics + query] : 0.0F;
    }
  }

  Accumulators<kM, kDim> sums;
  clear(sums);
  const int tiles = tiles_of(block_query + present, kKeys);
  for (; tile < tiles; ++tile) {
    if (tile + 1 < tiles) copy_tile(tile + 1);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    const int first_key = tile * kKeys;
    if (first_key < first_query + Size::kWarpRows && begins[warp_row] < first_key + kKeys) {
      const Element* k = keys + tile % 2 * kTile;
      Accumulators<kM, kKeys> scores, gradients;
      multiply<kDim>(q + warp_row * kTileStride<kDim>, k, scores);
      multiply<kDim>(dout + warp_row * kTileStride<kDim>, values + tile % 2 * kTile, gradients);
      const bool cut = first_key + kKeys - 1 > first_query || first_query + Size::kWarpRows > problem.seq ||
                       first_key < begins[warp_row + Size::kWarpRows - 1];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const int of_row[] = {begins[warp_row + row_of(m, 0)], begins[warp_row + row_of(m, 1)]};
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int query = first_query + row_of(m, i / 2), key = first_key + column_of(n) + i % 2;
            const bool seen = !cut || (query < problem.seq && key <= query && key >= of_row[i / 2]);
            const float p = seen ? exp2f(fmaf(scores[m][n][i], scale, -log_sum_exp[m][i / 2])) : 0.0F;
            gradients[m][n][i] = seen ? p * (gradients[m][n][i] - delta[m][i / 2]) : 0.0F;
          }
        }
      }
      add_products<kDim>(gradients, k, sums);
    }
    __syncthreads();
  }

  write_head<kDim>(problem, arguments.dq, index.sequence, index.head, first_query, present - warp_row, sums,
                   problem.scale);
}

// What a block of keys keeps of each query of a tile.
struct QueryStatistics {
  float *log_sum_exp, *delta;
  int* document_start;

  template <int kQueries>
  __device__ static QueryStatistics of(float* buffer) {
    return {buffer, buffer + kQueries, reinterpret_cast<int*>(buffer + 2 * kQueries)};
  }
};

// Of scores and of products dout·vᵀ, rows being keys and columns queries: the weights and the scores' gradients. `cut`:
// not every query of the tile sees every key. `window`: as long as the sequence if there is none.
template <bool kMasked, int kM, int kQueries>
__device__ __forceinline__ void differentiate(Accumulators<kM, kQueries>& p, Accumulators<kM, kQueries>& ds,
                                              const QueryStatistics& of, float scale, int first_key, int first_query,
                                              int seq, int window, bool cut) {
#pragma unroll
  for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      const int at = column_of(n) + column, query = first_query + at;
      const float query_log_sum_exp = of.log_sum_exp[at] * kLog2E, query_delta = of.delta[at];
      const int begin = kMasked ? max(query - window + 1, of.document_start[at]) : 0;
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int i = column; i < 4; i += 2) {
          const int key = first_key + row_of(m, i / 2);
          const bool seen = !cut || (query < seq && key <= query && key >= begin);
          p[m][n][i] = seen ? exp2f(fmaf(p[m][n][i], scale, -query_log_sum_exp)) : 0.0F;
          ds[m][n][i] = seen ? p[m][n][i] * (ds[m][n][i] - query_delta) : 0.0F;
        }
      }
    }
  }
}

// dk and dv of one tile of keys of one KV head. Rows of its products are keys and columns are queries, so that a warp
// keeps the sums of both gradients. Iterates over the query heads of the group, and over each head's queries from the
// diagonal on, in order, as far as they see a key of the tile.
template <int kDim, bool kMasked>
__global__ void __launch_bounds__(kThreads)
    key_gradients_kernel(AttentionProblem problem, BackwardArguments<Element> arguments) {
  using Size = KeySizes<kDim>;
  constexpr int kM = Size::kM, kQueries = Size::kOther, kTile = kQueries * kTileStride<kDim>;
  static_assert(Size::kOwned % kQueries == 0 && 3 * kQueries <= kThreads);
  auto* const shared = dynamic_shared<uint4>();
  Element* k = reinterpret_cast<Element*>(shared);
  Element* v = k + Size::kOwned * kTileStride<kDim>;
  Element* queries = v + Size::kOwned * kTileStride<kDim>;          // two tiles
  Element* douts = queries + 2 * kTile;                             // two tiles
  float* statistics = reinterpret_cast<float*>(douts + 2 * kTile);  // two buffers of QueryStatistics

  const TileOfHead index(problem.batch, problem.kv_heads);
  const int block_key = index.tile * Size::kOwned, present = min(Size::kOwned, problem.seq - block_key);
  const auto copy_tile = [&](int head, int first, int buffer) {
    const int rows = min(kQueries, problem.seq - first), thread = static_cast<int>(threadIdx.x);
    copy_heads<kQueries, kDim>(problem, arguments.q, arguments.dout, index.sequence, head, first,
                               queries + buffer * kTile, douts + buffer * kTile);
    const int row = thread % kQueries;
    float* const to = statistics + buffer * 3 * kQueries + thread;
    if (thread < 2 * kQueries) {
      const float* from = (thread < kQueries ? arguments.log_sum_exp : arguments.delta) +
                          problem.statistics(index.sequence, head) + first;
      copy_async<4>(to, from + (row < rows ? row : 0), row < rows);
    } else if (kMasked && thread < 3 * kQueries) {
      const std::int32_t* starts = arguments.document_starts;
      const void* from = arguments.log_sum_exp;  // without documents they all start at 0
      if (starts != nullptr)
        from = starts + static_cast<std::int64_t>(index.sequence) * problem.seq + first + (row < rows ? row : 0);
      copy_async<4>(to, from, row < rows && starts != nullptr);
    }
  };
  copy_heads<Size::kOwned, kDim>(problem, arguments.k, arguments.v, index.sequence, index.head, block_key, k, v);
  int head = index.head * problem.group(), first_query = block_key;  // of the tile in `buffer`
  copy_tile(head, first_query, 0);
  commit_copies();

  const int warp_row = warp_number() * Size::kWarpRows, first_key = block_key + warp_row;
  const float scale = problem.scale * kLog2E;
  Accumulators<kM, kDim> dk, dv;
  clear(dk);
  clear(dv);
  for (int buffer = 0; head < (index.head + 1) * problem.group(); buffer ^= 1) {
    bool head_ends = first_query + kQueries >= problem.seq;
    if (kMasked && !head_ends) {  // later queries see no earlier keys
      head_ends =
          problem.first_key(arguments.document_starts, index.sequence, first_query + kQueries) >= block_key + present;
    }
    const int next_head = head_ends ? head + 1 : head, next_query = head_ends ? block_key : first_query + kQueries;
    if (next_head < (index.head + 1) * problem.group()) copy_tile(next_head, next_query, buffer ^ 1);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    if (first_key < first_query + kQueries) {  // a query sees a key of this warp
      const Element* q = queries + buffer * kTile;
      const Element* dout = douts + buffer * kTile;
      const auto of = QueryStatistics::of<kQueries>(statistics + buffer * 3 * kQueries);
      Accumulators<kM, kQueries> p, ds;
      multiply<kDim>(k + warp_row * kTileStride<kDim>, q, p);
      multiply<kDim>(v + warp_row * kTileStride<kDim>, dout, ds);
      bool cut = first_key + Size::kWarpRows - 1 > first_query || first_query + kQueries > problem.seq;
      if (kMasked) {
        const int last = kQueries - 1;
        cut = cut || max(first_query + last - problem.window + 1, of.document_start[last]) > first_key;
      }
      differentiate<kMasked, kM, kQueries>(p, ds, of, scale, first_key, first_query, problem.seq, problem.window, cut);
      add_products<kDim>(p, dout, dv);
      add_products<kDim>(ds, q, dk);
    }
    head = next_head, first_query = next_query;
    __syncthreads();
  }

  const int left = present - warp_row;
  write_head<kDim>(problem, arguments.dv, index.sequence, index.head, first_key, left, dv, 1.0F);
  write_head<kDim>(problem, arguments.dk, index.sequence, index.head, first_key, left, dk, problem.scale);
}

template <int kDim, bool kMasked>
void forward(const Launch& launch, const AttentionProblem& problem, const ForwardArguments<Element>& arguments) {
  const int blocks = tiles_of(problem.seq, ForwardSizes<kDim>::kOwned) * problem.batch * problem.heads;
  start("attention forward on tensor cores", launch, forward_kernel<kDim, kMasked>, static_cast<unsigned>(blocks),
        kThreads, forward_bytes<kDim>(), problem, arguments);
}

template <int kDim, bool kMasked>
void backward(const Launch& launch, const AttentionProblem& problem, const BackwardArguments<Element>& arguments) {
  const int key_blocks = tiles_of(problem.seq, KeySizes<kDim>::kOwned) * problem.batch * problem.kv_heads;
  const int query_blocks = tiles_of(problem.seq, QuerySizes<kDim>::kOwned) * problem.batch * problem.heads;
  start("attention backward of keys on tensor cores", launch, key_gradients_kernel<kDim, kMasked>,
        static_cast<unsigned>(key_blocks), kThreads, key_bytes<kDim>(), problem, arguments);
  start("attention backward of queries on tensor cores", launch, query_gradients_kernel<kDim, kMasked>,
        static_cast<unsigned>(query_blocks), kThreads, query_bytes<kDim>(), problem, arguments);
}

// Calls body with a head dimension and whether there is a window or documents, as std::integral_constants.
template <class Body>
void with_form(const AttentionProblem& problem, bool documents, const Body& body) {
  const auto with_dim = [&](auto dim) {
    documents || problem.window < problem.seq ? body(dim, std::true_type{}) : body(dim, std::false_type{});
  };
  problem.head_dim == 64 ? with_dim(std::integral_constant<int, 64>{}) : with_dim(std::integral_constant<int, 128>{});
}

}  // namespace

void mma_attention_forward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors) {
  const AttentionProblem problem(shape);
  with_form(problem, tensors.document_starts != nullptr, [&](auto dim, auto masked) {
    forward<dim(), masked()>(launch, problem, ForwardArguments<Element>(tensors));
  });
}

void mma_attention_backward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors,
                            const AttentionGradients& gradients, const float* delta) {
  const AttentionProblem problem(shape);
  with_form(problem, tensors.document_starts != nullptr, [&](auto dim, auto masked) {
    backward<dim(), masked()>(launch, problem, BackwardArguments<Element>(tensors, gradients, delta));
  });
}

}  // namespace weft::cuda
