// Routing, and rows by expert; see experts.h. A row of logits is short, so a thread has it alone.
#include <limits>

#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/items.cuh"
#include "kernels/routing.h"

namespace weft::cuda {
namespace {

constexpr int kRouteThreads = 128;

// Tokens and their choices.
struct Choices {
  std::int64_t rows, experts, choices;
};
Choices choices_of(const Matrix& logits, const Matrix& chosen) {
  return {logits.rows, logits.cols, chosen.cols};
}

__device__ inline std::int64_t own_row() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// The parts of a row's chosen experts in the sum of all exponentials, or of their own alone.
struct Shares {
  float most = -INFINITY, total = 0.0F;

  __device__ Shares(const float* logits, const Choices& of, const std::int32_t* chosen, bool normalise) {
    for (std::int64_t e = 0; e < of.experts; ++e) most = fmaxf(most, logits[e]);
    const std::int64_t terms = normalise ? of.choices : of.experts;
    for (std::int64_t i = 0; i < terms; ++i) total += exponential(logits[normalise ? chosen[i] : i]);
  }

  __device__ float exponential(float logit) const { return expf(logit - most); }
  __device__ float of_logit(float logit) const { return exponential(logit) / total; }
};

__global__ void __launch_bounds__(kRouteThreads) route_kernel(Choices of, RouteKind kind, Stream<const float> logits,
                                                              Stream<std::int32_t> chosen, Stream<float> weights) {
  const std::int64_t row = own_row();
  if (row >= of.rows) return;
  const float* const from = logits.at(row, 0);
  std::int32_t* const to = chosen.at(row, 0);
  if (!kind.given) kernels::choose(from, of.experts, to, of.choices);
  const Shares shares(from, of, to, kind.normalise);
  for (std::int64_t j = 0; j < of.choices; ++j) *weights.at(row, j) = shares.of_logit(from[to[j]]);
}

template <class T>
__global__ void __launch_bounds__(kRouteThreads)
    route_backward_kernel(Choices of, bool normalise, Stream<const float> logits, Stream<const std::int32_t> chosen,
                          Stream<const float> dweights, Stream<T> dlogits) {
  const std::int64_t row = own_row();
  if (row >= of.rows) return;
  const float *const from = logits.at(row, 0), *const d = dweights.at(row, 0);
  const std::int32_t* const of_row = chosen.at(row, 0);
  T* const to = dlogits.at(row, 0);
  const Shares shares(from, of, of_row, normalise);
  float mean = 0.0F;
  for (std::int64_t j = 0; j < of.choices; ++j) mean += shares.of_logit(from[of_row[j]]) * d[j];
  const float factor = -mean / shares.total;
  for (std::int64_t e = 0; e < of.experts; ++e) {
    to[e] = from_float<T>(normalise ? 0.0F : shares.exponential(from[e]) * factor);
  }
  for (std::int64_t j = 0; j < of.choices; ++j) {
    to[of_row[j]] = from_float<T>(shares.of_logit(from[of_row[j]]) * (d[j] - mean));
  }
}

// Rows are sorted by counting. A block has kSortRows tokens. Each of its threads has some experts and looks at the
// choices one after the other, so an expert's rows keep the order of the tokens.
constexpr std::int64_t kSortRows = 256;
constexpr int kMostSortThreads = 256;

int sort_threads(std::int64_t experts) {
  return static_cast<int>(std::min<std::int64_t>(blocks_for(experts, kWarp) * kWarp, kMostSortThreads));
}

// Calls body(row, choice) for a block's choices of an expert, in order.
template <class Body>
__device__ void for_choices_of(std::int64_t expert, const Choices& of, const Stream<const std::int32_t>& chosen,
                               const Body& body) {
  const std::int64_t first = blockIdx.x * kSortRows, end = std::min(of.rows, first + kSortRows);
  for (std::int64_t row = first; row < end; ++row) {
    for (std::int64_t j = 0; j < of.choices; ++j) {
      if (*chosen.at(row, j) == expert) body(row, j);
    }
  }
}

// counts[block, expert]
__global__ void __launch_bounds__(kMostSortThreads)
    count_rows_kernel(Choices of, Stream<const std::int32_t> chosen, std::int32_t* counts) {
  for (std::int64_t e = threadIdx.x; e < of.experts; e += blockDim.x) {
    std::int32_t count = 0;
    for_choices_of(e, of, chosen, [&](std::int64_t, std::int64_t) { ++count; });
    counts[blockIdx.x * of.experts + e] = count;
  }
}

// The counts of each expert become the number of its rows in earlier blocks.
__global__ void __launch_bounds__(kMostSortThreads)
    expert_offsets_kernel(std::int64_t experts, std::int64_t blocks, std::int32_t* counts, std::int32_t* offsets) {
  for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
    std::int32_t sum = 0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int32_t count = counts[b * experts + e];
      counts[b * experts + e] = sum;
      sum += count;
    }
    offsets[e + 1] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  offsets[0] = 0;
  for (std::int64_t e = 1; e <= experts; ++e) offsets[e] += offsets[e - 1];
}

__global__ void __launch_bounds__(kMostSortThreads)
    place_rows_kernel(Choices of, Stream<const std::int32_t> chosen, const std::int32_t* counts,
                      const std::int32_t* offsets, Stream<std::int32_t> slots, std::int32_t* sources) {
  for (std::int64_t e = threadIdx.x; e < of.experts; e += blockDim.x) {
    std::int32_t place = offsets[e] + counts[blockIdx.x * of.experts + e];
    for_choices_of(e, of, chosen, [&](std::int64_t row, std::int64_t j) {
      *slots.at(row, j) = place;
      sources[place] = static_cast<std::int32_t>(row);
      ++place;
    });
  }
}

__global__ void __launch_bounds__(kMostSortThreads)
    offsets_of_rank_kernel(Stream<const std::int32_t> table, std::int64_t ranks, std::int64_t experts,
                           const std::int64_t* place, std::int32_t* offsets) {
  for (std::int64_t e = threadIdx.x; e <= experts; e += blockDim.x) {
    std::int32_t rows = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int32_t* const given = table.at(rank, *place * experts);
      rows += given[e] - given[0];
    }
    offsets[e] = rows;
  }
}

struct Least {
  __device__ float operator()(float a, float b) const { return fminf(a, b); }
};

// A minimum and a sum of integers, which no order of rows changes.
__device__ kernels::Nearness of_block(const kernels::Nearness& own) {
  __shared__ float margins[kWarp];
  __shared__ std::int32_t flips[kWarp];
  return {over_block(own.margin, std::numeric_limits<float>::max(), margins, Least{}), block_sum(own.flips, flips)};
}

__global__ void __launch_bounds__(kRouteThreads)
    nearness_kernel(Choices of, Stream<const float> logits, Stream<const std::int32_t> chosen,
                    kernels::Nearness* of_blocks) {
  const std::int64_t row = own_row();
  kernels::Nearness own;
  if (row < of.rows) own = kernels::nearness_of(logits.at(row, 0), of.experts, chosen.at(row, 0), of.choices);
  const kernels::Nearness all = of_block(own);
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = all;
}

__global__ void __launch_bounds__(kRouteThreads)
    told_kernel(const kernels::Nearness* of_blocks, std::int64_t blocks, const std::int32_t* offsets,
                std::int64_t experts, std::int32_t* counts, float* margin, std::int32_t* flips) {
  kernels::Nearness all;
  for (std::int64_t b = threadIdx.x; b < blocks; b += kRouteThreads) all.take(of_blocks[b]);
  all = of_block(all);
  for (std::int64_t e = threadIdx.x; e < experts; e += kRouteThreads) counts[e] = offsets[e + 1] - offsets[e];
  if (threadIdx.x == 0) *margin = all.margin, *flips = all.flips;
}

// Copies bits.
template <class T, int kWidth>
struct GatherRows : ItemWork {
  struct Item {
    std::int32_t source;
    Raw<T, kWidth> raw;
  };

  Stream<const T> x;
  const std::int32_t* sources;
  Stream<T> out;

  __device__ void find(std::int64_t row, Item& item) const { item.source = sources[row]; }
  __device__ void load(std::int64_t, std::int64_t column, Item& item) const {
    item.raw = fetch<kWidth>(x.at(item.source, column));
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    store(out.at(row, column), item.raw);
  }
};

template <class T, int kWidth>
struct CombineRows : ItemWork {
  struct Item {
    float sums[kWidth];
  };

  Stream<const T> y;
  Stream<const std::int32_t> slots;
  Stream<const float> weights;  // without data, factors of 1
  std::int64_t choices;
  Stream<T> out;

  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) item.sums[i] = 0.0F;
    for (std::int64_t j = 0; j < choices; ++j) {
      float values[kWidth];
      cuda::load(y.at(*slots.at(row, j), column), values);
      const float factor = weights.data != nullptr ? *weights.at(row, j) : 1.0F;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) item.sums[i] += factor * values[i];
    }
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    store(out.at(row, column), item.sums);
  }
};

// A warp has one choice of one token.
template <class T, int kWidth>
__global__ void __launch_bounds__(kRouteThreads)
    combine_rows_backward_kernel(std::uint32_t count, std::uint32_t choices, std::int64_t pieces, Stream<const T> y,
                                 Stream<const std::int32_t> slots, Stream<const float> weights, Stream<const T> dout,
                                 Stream<T> dy, Stream<float> dweights) {
  const auto choice = static_cast<std::uint32_t>(own_row() / kWarp);
  if (choice >= count) return;
  const std::int64_t row = choice / choices, j = choice % choices, slot = *slots.at(row, j);
  const float weight = *weights.at(row, j);
  float sum = 0.0F;
  for (std::int64_t piece = threadIdx.x % kWarp; piece < pieces; piece += kWarp) {
    float gradients[kWidth], values[kWidth];
    load(dout.at(row, piece * kWidth), gradients);
    load(y.at(slot, piece * kWidth), values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      sum += gradients[i] * values[i];
      gradients[i] *= weight;
    }
    store(dy.at(slot, piece * kWidth), gradients);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) *dweights.at(row, j) = sum;
}

}  // namespace

void route(const Launch& launch, RouteKind kind, const Matrix& logits, const Matrix& chosen, const Matrix& weights) {
  if (logits.rows == 0) return;
  start("route", launch, route_kernel, blocks_for(logits.rows, kRouteThreads), kRouteThreads, 0,
        choices_of(logits, chosen), kind, stream_of<const float>(logits), stream_of<std::int32_t>(chosen),
        stream_of<float>(weights));
}

void route_backward(const Launch& launch, bool normalise, const Matrix& logits, const Matrix& chosen,
                    const Matrix& dweights, const Matrix& dlogits) {
  if (logits.rows == 0) return;
  with_float_type(dlogits.dtype, [&]<class T>(T*) {
    start("route_backward", launch, route_backward_kernel<T>, blocks_for(logits.rows, kRouteThreads), kRouteThreads, 0,
          choices_of(logits, chosen), normalise, stream_of<const float>(logits), stream_of<const std::int32_t>(chosen),
          stream_of<const float>(dweights), stream_of<T>(dlogits));
  });
}

void sort_by_expert(const Launch& launch, const Matrix& chosen, const Matrix& slots, const Matrix& sources,
                    const Matrix& offsets) {
  const Choices of{chosen.rows, offsets.cols - 1, chosen.cols};
  const unsigned blocks = blocks_for(of.rows, kSortRows);
  const int threads = sort_threads(of.experts);
  const auto choices = stream_of<const std::int32_t>(chosen);
  auto* const counts = reinterpret_cast<std::int32_t*>(launch.scratch);
  if (blocks > 0) {
    start("sort_by_expert: counts", launch, count_rows_kernel, blocks, threads, 0, of, choices, counts);
  }
  start("sort_by_expert: offsets", launch, expert_offsets_kernel, 1, threads, 0, of.experts,
        static_cast<std::int64_t>(blocks), counts, offsets.i32());
  if (blocks > 0) {
    start("sort_by_expert: places", launch, place_rows_kernel, blocks, threads, 0, of, choices, counts, offsets.i32(),
          stream_of<std::int32_t>(slots), sources.i32());
  }
}

std::int64_t sort_by_expert_scratch_bytes(std::int64_t rows, std::int64_t experts) {
  return blocks_for(rows, kSortRows) * experts * static_cast<std::int64_t>(sizeof(std::int32_t));
}

void offsets_of_rank(const Launch& launch, const Matrix& table, const std::int64_t* place, const Matrix& offsets) {
  start("offsets_of_rank", launch, offsets_of_rank_kernel, 1, sort_threads(offsets.cols), 0,
        stream_of<const std::int32_t>(table), table.rows, offsets.cols - 1, place, offsets.i32());
}

void count_choices(const Launch& launch, const Matrix& logits, const Matrix& chosen, const Matrix& offsets,
                   const ChoiceCounts& told) {
  const unsigned blocks = blocks_for(logits.rows, kRouteThreads);
  auto* const of_blocks = reinterpret_cast<kernels::Nearness*>(launch.scratch);
  if (blocks > 0) {
    start("count_choices: margins", launch, nearness_kernel, blocks, kRouteThreads, 0, choices_of(logits, chosen),
          stream_of<const float>(logits), stream_of<const std::int32_t>(chosen), of_blocks);
  }
  start("count_choices", launch, told_kernel, 1, kRouteThreads, 0, of_blocks, static_cast<std::int64_t>(blocks),
        offsets.i32(), logits.cols, told.counts.i32(), told.margin.f32(), told.flips.i32());
}

std::int64_t count_choices_scratch_bytes(std::int64_t rows) {
  return blocks_for(rows, kRouteThreads) * static_cast<std::int64_t>(sizeof(kernels::Nearness));
}

void gather_rows(const Launch& launch, const Matrix& x, const Matrix& sources, const Matrix& out) {
  require_one_type(x, out);
  with_pieces(x.dtype, vectorizable(x) && vectorizable(out), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const GatherRows<T, kWidth> work{{}, stream_of<const T>(x), sources.i32(), stream_of<T>(out)};
    for_items<4, kWidth>(launch, "gather_rows", out.rows, out.cols, work);
  });
}

void combine_rows(const Launch& launch, const Matrix& y, const Matrix& slots, const Matrix* weights,
                  const Matrix& out) {
  require_one_type(y, out);
  with_pieces(y.dtype, vectorizable(y) && vectorizable(out), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const Stream<const float> factors =
        weights != nullptr ? stream_of<const float>(*weights) : Stream<const float>{nullptr, 0};
    const CombineRows<T, kWidth> work{{},         stream_of<const T>(y), stream_of<const std::int32_t>(slots), factors,
                                      slots.cols, stream_of<T>(out)};
    for_items<1, kWidth>(launch, "combine_rows", out.rows, out.cols, work);
  });
}

void combine_rows_backward(const Launch& launch, const CombinedRows& forward, const Matrix& dout, const Matrix& dy,
                           const Matrix& dweights) {
  require_one_type(forward.y, dout, dy);
  const auto choices = static_cast<std::uint32_t>(forward.slots.cols);  // slots are 32-bit numbers of rows
  const auto count = static_cast<std::uint32_t>(dout.rows) * choices;
  if (count == 0) return;
  const bool vectors = vectorizable(forward.y) && vectorizable(dout) && vectorizable(dy);
  with_pieces(dout.dtype, vectors, [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    start("combine_rows_backward", launch, combine_rows_backward_kernel<T, kWidth>,
          blocks_for(count, kRouteThreads / kWarp), kRouteThreads, 0, count, choices, dout.cols / kWidth,
          stream_of<const T>(forward.y), stream_of<const std::int32_t>(forward.slots),
          stream_of<const float>(forward.weights), stream_of<const T>(dout), stream_of<T>(dy),
          stream_of<float>(dweights));
  });
}

}  // namespace weft::cuda
