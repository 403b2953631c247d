// Attention in fp32 arithmetic for any head dimension up to 256, f32 or bf16 in memory: tiles of rows in shared memory,
// at most 4 × 4 products a thread. It is the reference for the tensor-core kernels, so it is kept simple.
#include <cmath>

#include "kernels/cuda/attention/attention_parts.cuh"

namespace weft::cuda {
namespace {

// A block is 16 × 16 threads. In a tile of products, thread (y, x) has rows y + 16·i and columns x + 16·j. In rows of
// the head dimension, it has rows y + 16·i and runs of kRun adjacent columns.
constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;
constexpr int kPad = 4;  // floats after each row: the same column of sixteen rows is then in different banks

__device__ inline int thread_x() {
  return static_cast<int>(threadIdx.x) % kSide;
}
__device__ inline int thread_y() {
  return static_cast<int>(threadIdx.x) / kSide;
}

template <int kDim>
struct Columns {
  static constexpr int kRun = kDim / kSide < 4 ? kDim / kSide : 4;
  static constexpr int kCount = kDim / kSide;  // for each thread

  __device__ static int of(int i) { return i / kRun * (kSide * kRun) + thread_x() * kRun + i % kRun; }
};

// Tiles of the kernels: rows that a block owns, and rows that it iterates over.
template <int kDim>
struct Tiles {
  static constexpr int kForward = 64;
  static constexpr int kOwned = kDim <= 128 ? 64 : 32;
  static constexpr int kOther = kDim <= 64 ? 64 : 32;
};

// to[kRows, kDim] = scale·from, with zeros after the head dimension and after the last row.
template <int kRows, int kDim, class T>
__device__ void load_rows(const T* from, std::int64_t stride, int present, int head_dim, float scale, float* to) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDim; i += kThreads) {
    const int row = i / kDim, col = i % kDim;
    float value = 0.0F;
    if (row < present && col < head_dim) value = scale * to_float(from[row * stride + col]);
    to[row * (kDim + kPad) + col] = value;
  }
}

// products = a[16·kM, kDim]·b[16·kN, kDim]ᵀ
template <int kM, int kN, int kDim>
__device__ void multiply(const float* a, const float* b, float (&products)[kM][kN]) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) products[i][j] = 0.0F;
  }
  const float* a_row = a + thread_y() * (kDim + kPad);
  const float* b_row = b + thread_x() * (kDim + kPad);
#pragma unroll 1  // unrolled, it spills at the 128 registers that allow two blocks
  for (int d = 0; d < kDim; d += 4) {
    float4 left[kM], right[kN];
#pragma unroll
    for (int i = 0; i < kM; ++i) left[i] = *reinterpret_cast<const float4*>(a_row + i * kSide * (kDim + kPad) + d);
#pragma unroll
    for (int j = 0; j < kN; ++j) right[j] = *reinterpret_cast<const float4*>(b_row + j * kSide * (kDim + kPad) + d);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        products[i][j] = fmaf(left[i].x, right[j].x, products[i][j]);
        products[i][j] = fmaf(left[i].y, right[j].y, products[i][j]);
        products[i][j] = fmaf(left[i].z, right[j].z, products[i][j]);
        products[i][j] = fmaf(left[i].w, right[j].w, products[i][j]);
      }
    }
  }
}

// Writes a thread's products to a tile of kSide·kN columns.
template <int kM, int kN>
__device__ void store_tile(const float (&products)[kM][kN], float* tile) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      tile[(thread_y() + kSide * i) * (kSide * kN + kPad) + thread_x() + kSide * j] = products[i][j];
    }
  }
}

// sums += tile[16·kM, kDepth]·rows[kDepth, kDim]
template <int kM, int kDepth, int kDim>
__device__ void add_products(const float* tile, const float* rows, float (&sums)[kM][Columns<kDim>::kCount]) {
  constexpr int kRun = Columns<kDim>::kRun, kCount = Columns<kDim>::kCount;
  const float* tile_row = tile + thread_y() * (kDepth + kPad);
#pragma unroll 1
  for (int k = 0; k < kDepth; k += 4) {
    float left[kM][4];
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const float4 four = *reinterpret_cast<const float4*>(tile_row + i * kSide * (kDepth + kPad) + k);
      left[i][0] = four.x, left[i][1] = four.y, left[i][2] = four.z, left[i][3] = four.w;
    }
#pragma unroll
    for (int depth = 0; depth < 4; ++depth) {
      const float* row = rows + (k + depth) * (kDim + kPad);
#pragma unroll
      for (int run = 0; run < kCount; run += kRun) {
        float right[kRun];
        if constexpr (kRun == 4) {
          const float4 four = *reinterpret_cast<const float4*>(row + Columns<kDim>::of(run));
          right[0] = four.x, right[1] = four.y, right[2] = four.z, right[3] = four.w;
        } else {
#pragma unroll
          for (int j = 0; j < kRun; ++j) right[j] = row[Columns<kDim>::of(run + j)];
        }
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
          for (int j = 0; j < kRun; ++j) sums[i][run + j] = fmaf(left[i][depth], right[j], sums[i][run + j]);
        }
      }
    }
  }
}

template <int kM, int kCount>
__device__ void clear(float (&sums)[kM][kCount]) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) sums[i][j] = 0.0F;
  }
}

// Writes row i of the thread's sums, times its factor, to rows of the head.
template <int kDim, class T, int kM>
__device__ void write_rows(const float (&sums)[kM][Columns<kDim>::kCount], const float (&factors)[kM], int present,
                           int head_dim, T* to, std::int64_t stride) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
    const int row = thread_y() + kSide * i;
#pragma unroll
    for (int j = 0; j < Columns<kDim>::kCount; ++j) {
      const int col = Columns<kDim>::of(j);
      if (row < present && col < head_dim) to[row * stride + col] = from_float<T>(sums[i][j] * factors[i]);
    }
  }
}

// The maximum over the sixteen threads that share rows; they are half a warp.
__device__ inline float row_max(float x) {
  return over_lanes<kSide>(x, Largest{});
}
__device__ inline float row_sum(float x) {
  return over_lanes<kSide>(x, Sum{});
}

// --- forward

template <int kDim>
constexpr int forward_floats() {
  constexpr int kTile = Tiles<kDim>::kForward;
  return 2 * kTile * (kDim + kPad) + kTile * (kTile + kPad);
}

// The score of a key that a query doesn't see. It is finite, since a tile before the query's first key may have nothing
// else; the tiles that follow, whose keys the query sees, multiply such a tile's sums by exp(kHiddenScore − score) = 0.
constexpr float kHiddenScore = -1e30F;

// One tile of queries of one head, over the tiles of keys that it sees. Keys and values share one buffer alternately.
template <class T, int kDim>
__global__ void __launch_bounds__(kThreads) forward_kernel(AttentionProblem problem, ForwardArguments<T> arguments) {
  constexpr int kTile = Tiles<kDim>::kForward, kM = kTile / kSide;
  auto* const shared = dynamic_shared<float4>();
  float* queries = reinterpret_cast<float*>(shared);
  float* rows = queries + kTile * (kDim + kPad);
  float* tile = rows + kTile * (kDim + kPad);

  const TileOfHead index(problem.batch, problem.heads);
  // The last tile sees the most keys and goes first, so that all blocks end together.
  const int first_query = (tiles_of(problem.seq, kTile) - 1 - index.tile) * kTile;
  const int present = min(kTile, problem.seq - first_query), kv_head = index.head / problem.group();
  load_rows<kTile, kDim>(arguments.q.at(problem, index.sequence, index.head, first_query), arguments.q.stride, present,
                         problem.head_dim, problem.scale, queries);

  float sums[kM][Columns<kDim>::kCount], largest[kM], total[kM];
  int begins[kM];  // the first key that the query sees
  clear(sums);
#pragma unroll
  for (int i = 0; i < kM; ++i) {
    largest[i] = -INFINITY, total[i] = 0.0F;
    const int query = first_query + min(thread_y() + kSide * i, present - 1);
    begins[i] = problem.first_key(arguments.document_starts, index.sequence, query);
  }

  // Queries see the same keys as the one before them, or later ones.
  const int begin = problem.first_key(arguments.document_starts, index.sequence, first_query) / kTile * kTile;
  for (int first_key = begin; first_key < first_query + present; first_key += kTile) {
    const int keys = min(kTile, problem.seq - first_key);
    __syncthreads();
    load_rows<kTile, kDim>(arguments.k.at(problem, index.sequence, kv_head, first_key), arguments.k.stride, keys,
                           problem.head_dim, 1.0F, rows);
    __syncthreads();
    float scores[kM][kM];
    multiply<kM, kM, kDim>(queries, rows, scores);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int query = first_query + thread_y() + kSide * i;
      float top = largest[i];
#pragma unroll
      for (int j = 0; j < kM; ++j) {
        const int key = first_key + thread_x() + kSide * j;
        if (key > query || key < begins[i]) scores[i][j] = kHiddenScore;
        top = fmaxf(top, scores[i][j]);
      }
      top = row_max(top);
      const float correction = expf(largest[i] - top);
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < kM; ++j) {
        scores[i][j] = expf(scores[i][j] - top);
        sum += scores[i][j];
      }
      largest[i] = top;
      total[i] = total[i] * correction + row_sum(sum);
#pragma unroll
      for (int j = 0; j < Columns<kDim>::kCount; ++j) sums[i][j] *= correction;
    }
    store_tile(scores, tile);
    __syncthreads();
    load_rows<kTile, kDim>(arguments.v.at(problem, index.sequence, kv_head, first_key), arguments.v.stride, keys,
                           problem.head_dim, 1.0F, rows);
    __syncthreads();
    add_products<kM, kTile, kDim>(tile, rows, sums);
  }

  float factors[kM];
  float* log_sum_exp = arguments.log_sum_exp + problem.statistics(index.sequence, index.head) + first_query;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
    factors[i] = 1.0F / total[i];
    const int row = thread_y() + kSide * i;
    if (row < present && thread_x() == 0) log_sum_exp[row] = largest[i] + logf(total[i]);
  }
  write_rows<kDim>(sums, factors, present, problem.head_dim,
                   arguments.out.at(problem, index.sequence, index.head, first_query), arguments.out.stride);
}

// --- backward

template <int kDim>
constexpr int queries_floats() {
  using Sizes = Tiles<kDim>;
  return 2 * (Sizes::kOwned + Sizes::kOther) * (kDim + kPad) + Sizes::kOwned * (Sizes::kOther + kPad);
}
template <int kDim>
constexpr int keys_floats() {
  return queries_floats<kDim>() + Tiles<kDim>::kOwned * (Tiles<kDim>::kOther + kPad) + Tiles<kDim>::kOther;
}

// dq of one tile of queries of one head: dq = scale·Σ dS·k with dS = P·(dout·vᵀ − delta), P = exp(scores −
// log_sum_exp).
template <class T, int kDim>
__global__ void __launch_bounds__(kThreads)
    query_gradients_kernel(AttentionProblem problem, BackwardArguments<T> arguments) {
  constexpr int kQueries = Tiles<kDim>::kOwned, kKeys = Tiles<kDim>::kOther;
  constexpr int kM = kQueries / kSide, kN = kKeys / kSide;
  auto* const shared = dynamic_shared<float4>();
  float* q = reinterpret_cast<float*>(shared);
  float* dout = q + kQueries * (kDim + kPad);
  float* k = dout + kQueries * (kDim + kPad);
  float* v = k + kKeys * (kDim + kPad);
  float* tile = v + kKeys * (kDim + kPad);

  const TileOfHead index(problem.batch, problem.heads);
  const int first_query = (tiles_of(problem.seq, kQueries) - 1 - index.tile) * kQueries;
  const int present = min(kQueries, problem.seq - first_query), kv_head = index.head / problem.group();
  load_rows<kQueries, kDim>(arguments.q.at(problem, index.sequence, index.head, first_query), arguments.q.stride,
                            present, problem.head_dim, problem.scale, q);
  load_rows<kQueries, kDim>(arguments.dout.at(problem, index.sequence, index.head, first_query), arguments.dout.stride,
                            present, problem.head_dim, 1.0F, dout);
  float log_sum_exp[kM], delta[kM], sums[kM][Columns<kDim>::kCount];
  int begins[kM];  // the first key that the query sees
  clear(sums);
  const std::int64_t statistics = problem.statistics(index.sequence, index.head) + first_query;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
    const int row = thread_y() + kSide * i;
    log_sum_exp[i] = row < present ? arguments.log_sum_exp[statistics + row] : 0.0F;
    delta[i] = row < present ? arguments.delta[statistics + row] : 0.0F;
    begins[i] = problem.first_key(arguments.document_starts, index.sequence, first_query + min(row, present - 1));
  }

  const int begin = problem.first_key(arguments.document_starts, index.sequence, first_query) / kKeys * kKeys;
  for (int first_key = begin; first_key < first_query + present; first_key += kKeys) {
    const int keys = min(kKeys, problem.seq - first_key);
    __syncthreads();
    load_rows<kKeys, kDim>(arguments.k.at(problem, index.sequence, kv_head, first_key), arguments.k.stride, keys,
                           problem.head_dim, 1.0F, k);
    load_rows<kKeys, kDim>(arguments.v.at(problem, index.sequence, kv_head, first_key), arguments.v.stride, keys,
                           problem.head_dim, 1.0F, v);
    __syncthreads();
    float scores[kM][kN], gradients[kM][kN];
    multiply<kM, kN, kDim>(q, k, scores);
    multiply<kM, kN, kDim>(dout, v, gradients);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int row = thread_y() + kSide * i;
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const int key = first_key + thread_x() + kSide * j;
        const bool seen = row < present && key <= first_query + row && key >= begins[i];
        gradients[i][j] = seen ? expf(scores[i][j] - log_sum_exp[i]) * (gradients[i][j] - delta[i]) : 0.0F;
      }
    }
    store_tile(gradients, tile);
    __syncthreads();
    add_products<kM, kKeys, kDim>(tile, k, sums);
  }

  float factors[kM];
#pragma unroll
  for (int i = 0; i < kM; ++i) factors[i] = problem.scale;
  write_rows<kDim>(sums, factors, present, problem.head_dim,
                   arguments.dq.at(problem, index.sequence, index.head, first_query), arguments.dq.stride);
}

// dk and dv of one tile of keys of one KV head. The rows of its tiles are keys, the columns queries. Iterates over the
// query heads of the group, and over each head's queries from the diagonal to the end of the window, in order.
template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, kDim <= 64 ? 2 : 1)
    key_gradients_kernel(AttentionProblem problem, BackwardArguments<T> arguments) {
  constexpr int kKeys = Tiles<kDim>::kOwned, kQueries = Tiles<kDim>::kOther;
  constexpr int kM = kKeys / kSide, kN = kQueries / kSide;
  auto* const shared = dynamic_shared<float4>();
  float* k = reinterpret_cast<float*>(shared);
  float* v = k + kKeys * (kDim + kPad);
  float* q = v + kKeys * (kDim + kPad);
  float* dout = q + kQueries * (kDim + kPad);
  float* p_tile = dout + kQueries * (kDim + kPad);
  float* ds_tile = p_tile + kKeys * (kQueries + kPad);
  // The first key that each query sees; not in registers, of which there are none left.
  int* begins = reinterpret_cast<int*>(ds_tile + kKeys * (kQueries + kPad));

  const TileOfHead index(problem.batch, problem.kv_heads);
  const int first_key = index.tile * kKeys, present = min(kKeys, problem.seq - first_key);
  load_rows<kKeys, kDim>(arguments.k.at(problem, index.sequence, index.head, first_key), arguments.k.stride, present,
                         problem.head_dim, 1.0F, k);
  load_rows<kKeys, kDim>(arguments.v.at(problem, index.sequence, index.head, first_key), arguments.v.stride, present,
                         problem.head_dim, 1.0F, v);
  float dk[kM][Columns<kDim>::kCount], dv[kM][Columns<kDim>::kCount];
  clear(dk);
  clear(dv);
  // The query after the last that sees a key of the tile; the sum doesn't overflow, as both are below 2^30.
  const int end = min(problem.seq, first_key + present - 1 + problem.window);

  for (int member = 0; member < problem.group(); ++member) {
    const int head = index.head * problem.group() + member;
    const std::int64_t statistics = problem.statistics(index.sequence, head);
    for (int first_query = first_key; first_query < end; first_query += kQueries) {
      const int queries = min(kQueries, problem.seq - first_query);
      __syncthreads();
      load_rows<kQueries, kDim>(arguments.q.at(problem, index.sequence, head, first_query), arguments.q.stride, queries,
                                problem.head_dim, problem.scale, q);
      load_rows<kQueries, kDim>(arguments.dout.at(problem, index.sequence, head, first_query), arguments.dout.stride,
                                queries, problem.head_dim, 1.0F, dout);
      if (const int i = static_cast<int>(threadIdx.x); i < kQueries) {
        begins[i] = problem.first_key(arguments.document_starts, index.sequence, min(first_query + i, problem.seq - 1));
      }
      __syncthreads();
      if (begins[0] >= first_key + present) break;  // later queries see no earlier keys
      float p[kM][kN], ds[kM][kN];
      multiply<kM, kN, kDim>(k, q, p);
      multiply<kM, kN, kDim>(v, dout, ds);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const int column = thread_x() + kSide * j, query = first_query + column;
        const float log_sum_exp = column < queries ? arguments.log_sum_exp[statistics + query] : 0.0F;
        const float delta = column < queries ? arguments.delta[statistics + query] : 0.0F;
#pragma unroll
        for (int i = 0; i < kM; ++i) {
          const int key = first_key + thread_y() + kSide * i;
          const bool seen = column < queries && key <= query && key >= begins[column];
          p[i][j] = seen ? expf(p[i][j] - log_sum_exp) : 0.0F;
          ds[i][j] = seen ? p[i][j] * (ds[i][j] - delta) : 0.0F;
        }
      }
      store_tile(p, p_tile);
      store_tile(ds, ds_tile);
      __syncthreads();
      add_products<kM, kQueries, kDim>(p_tile, dout, dv);
      add_products<kM, kQueries, kDim>(ds_tile, q, dk);  // the queries are scaled
    }
  }

  float factors[kM];
#pragma unroll
  for (int i = 0; i < kM; ++i) factors[i] = 1.0F;
  write_rows<kDim>(dk, factors, present, problem.head_dim,
                   arguments.dk.at(problem, index.sequence, index.head, first_key), arguments.dk.stride);
  write_rows<kDim>(dv, factors, present, problem.head_dim,
                   arguments.dv.at(problem, index.sequence, index.head, first_key), arguments.dv.stride);
}

template <class T, int kDim>
void forward(const Launch& launch, const AttentionProblem& problem, const AttentionTensors& tensors) {
  const int blocks = tiles_of(problem.seq, Tiles<kDim>::kForward) * problem.batch * problem.heads;
  start("attention forward", launch, forward_kernel<T, kDim>, static_cast<unsigned>(blocks), kThreads,
        forward_floats<kDim>() * sizeof(float), problem, ForwardArguments<T>(tensors));
}

template <class T, int kDim>
void backward(const Launch& launch, const AttentionProblem& problem, const BackwardArguments<T>& arguments) {
  const int blocks = tiles_of(problem.seq, Tiles<kDim>::kOwned) * problem.batch;
  start("attention backward of keys", launch, key_gradients_kernel<T, kDim>,
        static_cast<unsigned>(blocks * problem.kv_heads), kThreads, keys_floats<kDim>() * sizeof(float), problem,
        arguments);
  start("attention backward of queries", launch, query_gradients_kernel<T, kDim>,
        static_cast<unsigned>(blocks * problem.heads), kThreads, queries_floats<kDim>() * sizeof(float), problem,
        arguments);
}

template <int kDim>
struct Dim {};

// Calls `body` with the smallest supported dimension that is at least the head's.
template <class Body>
void with_dim(std::int64_t head_dim, const Body& body) {
  if (head_dim <= 16) {
    body(Dim<16>{});
  } else if (head_dim <= 32) {
    body(Dim<32>{});
  } else if (head_dim <= 64) {
    body(Dim<64>{});
  } else if (head_dim <= 128) {
    body(Dim<128>{});
  } else {
    body(Dim<256>{});
  }
}

}  // namespace

void tiled_attention_forward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors) {
  with_float_type(tensors.q.dtype, [&]<class T>(T*) {
    with_dim(shape.head_dim, [&]<int kDim>(Dim<kDim>) { forward<T, kDim>(launch, AttentionProblem(shape), tensors); });
  });
}

void tiled_attention_backward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors,
                              const AttentionGradients& gradients, const float* delta) {
  with_float_type(tensors.q.dtype, [&]<class T>(T*) {
    with_dim(shape.head_dim, [&]<int kDim>(Dim<kDim>) {
      backward<T, kDim>(launch, AttentionProblem(shape), BackwardArguments<T>(tensors, gradients, delta));
    });
  });
}

}  // namespace weft::cuda
