// The gradient kernels of layer and RMS normalisation, for whole rows and for parts of rows; see norm_rows.cuh.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/elementwise/column_sums.cuh"
#include "kernels/cuda/norm/norm.h"
#include "kernels/cuda/norm/norm_rows.cuh"
#include "kernels/cuda/warp_operations.cuh"

namespace weft::cuda::norm {

template <class T>
struct Backward {
  const T* x;
  std::int64_t x_stride;
  const T* weight;
  const float *mean, *rstd;  // mean: null if not centered
  const T* dy;
  std::int64_t dy_stride;
  T* dx;
  std::int64_t dx_stride;
  const T* dresidual;  // may be null
  std::int64_t dresidual_stride;
  const float* sums;  // given sums of whole rows, {Σ g, Σ g·x̂} or {Σ g·x̂}; null: computed from the row itself
  float* sums_out;    // written by row_sums_kernel
  std::int64_t rows;
  int cols;
  float share;  // of a column in the means over the whole row

  template <bool kCentered>
  __device__ float mean_of(std::int64_t row) const {
    if constexpr (kCentered) return mean[row];
    return 0.0F;
  }
  // Means over whole rows, from the rows' sums.
  template <bool kCentered>
  __device__ float2 given_means(std::int64_t row) const {
    if constexpr (kCentered) return {sums[row * 2] * share, sums[row * 2 + 1] * share};
    return {0.0F, sums[row] * share};
  }
};

/// How blocks of the backward pass share the rows: after its first row, a team takes every (`blocks`·`down`)-th row.
struct BackwardPlan {
  int vectors;  // for each thread
  Teams teams;
  std::int64_t blocks;
};

inline constexpr int kMostBackwardVectors = 5;
inline constexpr std::int64_t kStreams = 3;  // x, dy and dresidual

/// Bytes of a team's shared memory: for the row in progress and the next row.
inline std::int64_t backward_team_bytes(std::int64_t cols, std::int64_t element_bytes) {
  return 2 * kStreams * cols * element_bytes;
}

/// A block's threads, each with `vectors` vectors: their rows take at most 96 KiB. An H100 multiprocessor has that much
/// for each of two blocks; on some GPUs it is a block's limit.
constexpr int backward_threads(int vectors, int element_bytes) {
  const int warp_bytes = 2 * static_cast<int>(kStreams) * vectors * kWarp * kVector * element_bytes;
  return std::min(256, 96 * 1024 / warp_bytes * kWarp);
}

/// Depends only on the shape. `vectors` is 0 if rows are too long. There are two blocks for each multiprocessor of an
/// H100: each keeps its columns' sums in registers over all of its rows, and more blocks would write more partial sums.
inline BackwardPlan backward_plan(std::int64_t rows, std::int64_t cols, int element_bytes) {
  constexpr std::int64_t kMostBlocks = 264;
  const std::int64_t pieces = (cols + kVector - 1) / kVector, of_warp = (pieces + kWarp - 1) / kWarp;
  const std::int64_t vectors = of_warp <= kMostBackwardVectors ? std::max<std::int64_t>(of_warp, 1) : kTeamVectors;
  const std::int64_t across = std::max<std::int64_t>(1, (of_warp + vectors - 1) / vectors) * kWarp;
  const std::int64_t down = backward_threads(static_cast<int>(vectors), element_bytes) / across;
  if (down == 0) return {0, {1, 1}, 0};
  return {static_cast<int>(vectors),
          {static_cast<unsigned>(across), static_cast<unsigned>(down)},
          std::clamp<std::int64_t>(rows / down, 1, kMostBlocks)};
}

/// A barrier of all threads of a team.
template <int kVectors>
__device__ inline void team_barrier() {
  if (!kOneWarp<kVectors> && blockDim.x > kWarp) {
    __barrier_sync_count(1 + threadIdx.y, blockDim.x);
  } else {
    __syncwarp();
  }
}

/// Loads aren't moved across this call. Otherwise the compiler would begin all loads at once, for which there aren't
/// enough registers.
__device__ inline void keep_order_of_loads() {
  asm volatile("" ::: "memory");
}

/// The sums over a team's threads, each of which has a part of the row. `of_block`: a place for each warp of a block.
template <int kVectors>
__device__ __forceinline__ float2 sum_over_team(float2 sums, float2* of_block) {
  if (kOneWarp<kVectors> || blockDim.x <= kWarp) return sums;
  const unsigned warps = blockDim.x / kWarp;
  float2* const of_warps = of_block + threadIdx.y * warps;
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = sums;
  team_barrier<kVectors>();
  sums = of_warps[0];
#pragma unroll 1
  for (unsigned warp = 1; warp < warps; ++warp) sums.x += of_warps[warp].x, sums.y += of_warps[warp].y;
  return sums;
}

/// A row's dx, from the thread's elements of the row and of the weights in shared and global memory.
template <class T, int kVectors>
__device__ __forceinline__ void write_dx(const Backward<T>& b, unsigned row, const T* of_row, const T* weights, float m,
                                         float s, float2 means) {
  const int first = column_of<kVectors>(0);
  const auto place = [&](int k) { return column_of<kVectors>(k) - first; };
  T* const to = b.dx + row * b.dx_stride + first;
  const float from_g = s * means.x, from_normal = s * means.y;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (!is_held<kVectors>(k, b.cols)) continue;
    keep_order_of_loads();
    float x[kVector], dy[kVector], weight[kVector], out[kVector], more[kVector] = {};
    load(of_row + place(k), x);
    load(of_row + b.cols + place(k), dy);
    load(weights + place(k), weight);
    if (b.dresidual != nullptr) load(of_row + 2 * b.cols + place(k), more);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float normal = (x[i] - m) * s;
      out[i] = s * (dy[i] * weight[i]) + (more[i] - from_g - normal * from_normal);
    }
    store(to + place(k), out);
  }
}

/// The block's partial sums. Each team's sums overwrite its rows; then every thread adds some columns of all teams, in
/// the order of teams.
template <class T, int kSums, int kVectors>
__device__ __forceinline__ void write_partials(int cols, const float (&totals)[kSums][kVectors][kVector], T* of_team,
                                               float* partials) {
  wait_for_copies<0>();
  team_barrier<kVectors>();
  auto* const sums_of_team = reinterpret_cast<float*>(of_team);
#pragma unroll
  for (int sum = 0; sum < kSums; ++sum) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (is_held<kVectors>(k, cols)) store(sums_of_team + sum * cols + column_of<kVectors>(k), totals[sum][k]);
    }
  }
  __syncthreads();
  const int between = 2 * static_cast<int>(kStreams) * cols * static_cast<int>(sizeof(T)) / 4;  // two teams' sums
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  float* const of_block = partials + static_cast<std::int64_t>(blockIdx.x) * kSums * cols;
  for (int i = (static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x)) * 4; i < kSums * cols; i += threads * 4) {
    float total[4];
    load(dynamic_shared<const float>() + i, total);
    for (int team = 1; team < static_cast<int>(blockDim.y); ++team) {
      float more[4];
      load(dynamic_shared<const float>() + team * between + i, more);
#pragma unroll
      for (int k = 0; k < 4; ++k) total[k] += more[k];
    }
    store(of_block + i, total);
  }
}

// dx of rows, and the block's partial sums of dweight and dbias: partials[block][sum][column]. While a team works on a
// row, its next row is copied to shared memory; each thread reads only the elements that it copied. dx may be dy or
// dresidual: a row's loads precede its stores, and the thread that loaded an element stores it.
template <class T, bool kCentered, bool kGiven, int kVectors>
__global__ void __launch_bounds__(backward_threads(kVectors, sizeof(T)), 2)
    backward_kernel(const Backward<T> b, float* partials) {
  constexpr int kSums = kCentered ? 2 : 1, kPiece = 16 / static_cast<int>(sizeof(T));
  // Two buffers, used alternately, so that one barrier a row is enough.
  __shared__ float2 shared[2][kMostWarps];
  // From here on, a thread's k-th vector is at `place(k)` after its first.
  const int first = column_of<kVectors>(0), row_size = static_cast<int>(kStreams) * b.cols;
  const auto place = [&](int k) { return column_of<kVectors>(k) - first; };
  T* const of_team = dynamic_shared<T>() + static_cast<int>(threadIdx.y) * 2 * row_size;
  T* const of_thread = of_team + first;
  const T* const weights = b.weight + first;

  const unsigned rows = static_cast<unsigned>(b.rows), step = gridDim.x * blockDim.y;
  unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  float next_mean = 0.0F, next_rstd = 0.0F;
  const auto copy = [&](T* to, const T* from) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (!is_held<kVectors>(k, b.cols)) continue;
#pragma unroll
      for (int at = place(k); at < place(k) + kVector; at += kPiece) copy_async<16>(to + at, from + at, true);
    }
  };
  const auto begin_row = [&](unsigned begun, T* to) {
    if (begun < rows) {
      copy(to, b.x + begun * b.x_stride + first);
      copy(to + b.cols, b.dy + begun * b.dy_stride + first);
      if (b.dresidual != nullptr) copy(to + 2 * b.cols, b.dresidual + begun * b.dresidual_stride + first);
      next_mean = b.template mean_of<kCentered>(begun), next_rstd = b.rstd[begun];
    }
    commit_copies();
  };

  float totals[kSums][kVectors][kVector] = {};
  begin_row(row, of_thread);
  for (int turn = 0; row < rows; row += step, turn ^= 1) {
    const float m = next_mean, s = next_rstd;
    begin_row(row + step, of_thread + (turn ^ 1) * row_size);
    wait_for_copies<1>();
    const T* const of_row = of_thread + turn * row_size;
    float g_sum = 0.0F, gx_sum = 0.0F;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (!is_held<kVectors>(k, b.cols)) continue;
      keep_order_of_loads();
      float x[kVector], dy[kVector], weight[kVector];
      load(of_row + place(k), x);
      load(of_row + b.cols + place(k), dy);
      if constexpr (!kGiven) load(weights + place(k), weight);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float normal = (x[i] - m) * s;
        totals[0][k][i] += dy[i] * normal;
        if constexpr (kCentered) totals[1][k][i] += dy[i];
        if constexpr (!kGiven) {
          const float g = dy[i] * weight[i];
          g_sum += g;
          gx_sum += g * normal;
        }
      }
    }
    float2 means;
    if constexpr (kGiven) {
      means = b.template given_means<kCentered>(row);
    } else {
      const float2 sums = sum_over_team<kVectors>({kCentered ? warp_sum(g_sum) : 0.0F, warp_sum(gx_sum)}, shared[turn]);
      means = {sums.x * b.share, sums.y * b.share};
    }
    write_dx<T, kVectors>(b, row, of_row, weights, m, s, means);
  }

  write_partials(b.cols, totals, of_team, partials);
}

// {Σ g, Σ g·x̂} over a team's row.
template <class T, bool kCentered, int kWidth>
__device__ inline float2 row_sums(const Backward<T>& b, std::int64_t index, float m, float s, bool present,
                                  float* shared) {
  const Row<T, 0, kWidth> dy(b.dy + index * b.dy_stride, present ? b.cols : 0);
  float g_sum = 0.0F, gx_sum = 0.0F;
  dy.visit([&](int column, const auto& values) {
    float x[kWidth], weight[kWidth];
    load(b.x + index * b.x_stride + column, x);
    load(b.weight + column, weight);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = values[i] * weight[i];
      g_sum += g;
      gx_sum += g * ((x[i] - m) * s);
    }
  });
  float2 sums = {0.0F, team_sum<true>(gx_sum, shared)};
  if constexpr (kCentered) sums.x = team_sum<true>(g_sum, shared);
  return sums;
}

template <class T, bool kCentered, int kWidth>
__global__ void __launch_bounds__(kMostThreads) row_sums_kernel(const Backward<T> b) {
  __shared__ float shared[kMostWarps];
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool present = index < b.rows;
  const float m = present ? b.template mean_of<kCentered>(index) : 0.0F, s = present ? b.rstd[index] : 0.0F;
  const float2 sums = row_sums<T, kCentered, kWidth>(b, index, m, s, present, shared);
  if (!present || threadIdx.x != 0) return;
  float* out = b.sums_out + index * (kCentered ? 2 : 1);
  if constexpr (kCentered) *out++ = sums.x;
  *out = sums.y;
}

// dx of rows that are read from memory in every pass. dx may be dy or dresidual: in both passes a thread reads exactly
// the columns that it writes.
template <class T, bool kCentered, bool kGiven, int kWidth>
__global__ void __launch_bounds__(kMostThreads) dx_kernel(const Backward<T> b) {
  __shared__ float shared[kMostWarps];
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool present = index < b.rows;
  const float m = present ? b.template mean_of<kCentered>(index) : 0.0F, s = present ? b.rstd[index] : 0.0F;
  float2 means = {0.0F, 0.0F};
  if constexpr (kGiven) {
    if (present) means = b.template given_means<kCentered>(index);
  } else {
    const float2 sums = row_sums<T, kCentered, kWidth>(b, index, m, s, present, shared);
    means = {sums.x * b.share, sums.y * b.share};
  }
  const Row<T, 0, kWidth> dy(b.dy + index * b.dy_stride, present ? b.cols : 0);
  dy.visit([&](int column, const auto& values) {
    float x[kWidth], weight[kWidth], out[kWidth], more[kWidth] = {};
    load(b.x + index * b.x_stride + column, x);
    load(b.weight + column, weight);
    if (b.dresidual != nullptr) load(b.dresidual + index * b.dresidual_stride + column, more);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      out[i] = s * (values[i] * weight[i] - means.x - (x[i] - m) * s * means.y) + more[i];
    }
    store(b.dx + index * b.dx_stride + column, out);
  });
}

// dweight and, if centered, dbias of such rows; see column_sums.cuh.
template <class T, bool kCentered>
struct WeightTerms {
  Backward<T> b;

  template <int kWidth>
  __device__ void operator()(std::int64_t row, int column, float (&totals)[kCentered ? 2 : 1][kWidth]) const {
    float x[kWidth], dy[kWidth];
    load(b.x + row * b.x_stride + column, x);
    load(b.dy + row * b.dy_stride + column, dy);
    const float m = b.template mean_of<kCentered>(row), s = b.rstd[row];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      totals[0][i] += dy[i] * ((x[i] - m) * s);
      if constexpr (kCentered) totals[1][i] += dy[i];
    }
  }
};

/// Without the gradients.
template <class T>
Backward<T> arguments_of(const NormTensors& norm, const Matrix& dy, std::int64_t parts) {
  Backward<T> b{};
  b.x = data_of<const T>(norm.x), b.x_stride = norm.x.row_stride;
  b.weight = data_of<const T>(norm.weight);
  if (norm.mean != nullptr) b.mean = norm.mean->f32();
  b.rstd = norm.rstd.f32();
  b.dy = data_of<const T>(dy), b.dy_stride = dy.row_stride;
  b.rows = norm.x.rows, b.cols = static_cast<int>(norm.x.cols);
  b.share = 1.0F / static_cast<float>(parts * norm.x.cols);
  return b;
}

inline std::int64_t backward_scratch_bytes(bool centered, std::int64_t rows, std::int64_t cols) {
  // Enough for each kernel: the choice between them also depends on the arguments' type and alignment.
  const std::int64_t blocks = std::max(
      {backward_plan(rows, cols, 2).blocks, backward_plan(rows, cols, 4).blocks, column_sum_chunks(rows, cols).count});
  return partial_bytes(blocks, centered ? 2 : 1, cols);
}

template <class T, bool kCentered, bool kGiven>
void launch_backward(const Launch& launch, const Backward<T>& b, const BackwardPlan& plan, float* partials) {
  const auto shared = static_cast<int>(plan.teams.down * backward_team_bytes(b.cols, sizeof(T)));
  with_number<kMostBackwardVectors>(plan.vectors, [&](auto vectors) {
    const auto kernel = backward_kernel<T, kCentered, kGiven, decltype(vectors)::value>;
    start("norm_backward", launch, kernel, static_cast<unsigned>(plan.blocks), plan.teams.threads(),
          static_cast<std::size_t>(shared), b, partials);
  });
}

/// kGiven: `sums` are given sums of whole rows, which consist of `parts` parts; else they are computed.
template <bool kGiven>
void backward(const Launch& launch, const NormTensors& norm, const Matrix& dy, const NormGradients& gradients,
              const Matrix* sums, std::int64_t parts) {
  const Matrix& residual = gradients.dresidual != nullptr ? *gradients.dresidual : dy;
  require_one_type(norm.x, norm.weight, dy, gradients.dx, residual);
  const bool wide = vectorizable(norm.x) && vectorizable(norm.weight) && vectorizable(dy) &&
                    vectorizable(gradients.dx) && vectorizable(residual);
  auto* partials = reinterpret_cast<float*>(launch.scratch);
  float* const dweight = gradients.dweight.f32();
  with_kind(norm.x.dtype, norm.mean != nullptr, [&]<class T, bool kCentered>(Kind<T, kCentered>) {
    constexpr int kSums = kCentered ? 2 : 1;
    float* const dbias = kCentered ? gradients.dbias->f32() : nullptr;
    Backward<T> b = arguments_of<T>(norm, dy, parts);
    b.dx = data_of<T>(gradients.dx), b.dx_stride = gradients.dx.row_stride;
    if (gradients.dresidual != nullptr) b.dresidual = data_of<const T>(residual);
    b.dresidual_stride = residual.row_stride;
    if constexpr (kGiven) b.sums = sums->f32();
    const BackwardPlan plan = backward_plan(b.rows, b.cols, sizeof(T));
    if (b.rows > 0 && wide && plan.vectors > 0) {
      launch_backward<T, kCentered, kGiven>(launch, b, plan, partials);
      combine_column_sums<kSums>(launch, partials, plan.blocks, b.cols, dweight, dbias, gradients.accumulate);
      return;
    }
    // The column sums come first, because dx may overwrite dy.
    const auto run = [&](auto, auto width, const Teams& teams) {
      constexpr int kWidth = decltype(width)::value;
      column_sums<kWidth, kSums>(launch, WeightTerms<T, kCentered>{b}, b.rows, b.cols, partials, dweight, dbias,
                                 gradients.accumulate);
      if (b.rows == 0) return;
      start("norm_dx", launch, dx_kernel<T, kCentered, kGiven, kWidth>, teams.blocks(b.rows), teams.threads(), 0, b);
    };
    with_passing_rows(b.cols, wide, run);
  });
}

}  // namespace weft::cuda::norm
