// The forward kernels of layer and RMS normalisation, for whole rows and for parts of rows; see norm_rows.cuh.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/norm/norm.h"
#include "kernels/cuda/norm/norm_rows.cuh"

namespace weft::cuda::norm {

struct Moments {
  float mean, squares;  // squares: Σ (x − mean)²
};

template <bool kCentered, class T, int kVectors, int kWidth>
__device__ inline Moments moments_of(Row<T, kVectors, kWidth>& row, float share, float* shared) {
  constexpr bool kWarps = !kOneWarp<kVectors>;
  Moments moments{0.0F, 0.0F};
  if constexpr (kCentered) {
    float sum = 0.0F;
    row.visit([&](int, const auto& values) {
#pragma unroll
      for (const float value : values) sum += value;
    });
    moments.mean = team_sum<kWarps>(sum, shared) * share;
  }
  float squares = 0.0F;
  row.visit([&](int, const auto& values) {
#pragma unroll
    for (const float value : values) squares += (value - moments.mean) * (value - moments.mean);
  });
  moments.squares = team_sum<kWarps>(squares, shared);
  return moments;
}

/// Statistics of a whole row from its parts of `cols` columns, in the order of parts. All parts have the same number of
/// columns, so the p-th part joins p others of its size.
template <bool kCentered>
__device__ inline Moments combined(const float* statistics, std::int64_t parts, std::int64_t rows, std::int64_t row,
                                   int cols) {
  Moments all{0.0F, 0.0F};
  if constexpr (kCentered) {
    all = {statistics[row * 2], statistics[row * 2 + 1]};
    for (std::int64_t p = 1; p < parts; ++p) {
      const float* part = statistics + (p * rows + row) * 2;
      const auto before = static_cast<float>(p);
      const float delta = part[0] - all.mean, share = 1.0F / (before + 1.0F);
      all.mean += delta * share;
      all.squares += part[1] + delta * delta * (static_cast<float>(cols) * before * share);
    }
  } else {
    for (std::int64_t p = 0; p < parts; ++p) all.squares += statistics[p * rows + row];
  }
  return all;
}

template <class T>
struct Forward {
  const T* x;
  std::int64_t x_stride;
  const T *weight, *bias;  // bias: null if not centered
  T* y;
  std::int64_t y_stride;
  float *mean, *rstd;       // mean: null if not centered
  const float* statistics;  // of the parts; null: computed from the row itself
  std::int64_t parts, rows;
  int cols;
  float share, eps;  // share: of a column in the whole row's mean
};

/// A block's threads, and the number of blocks that a multiprocessor's registers must have room for. A thread needs
/// nearly forty registers besides its elements of the row. Without the limit the compiler would take many more, and too
/// few rows would be loaded concurrently.
inline constexpr unsigned kForwardThreads = 256;
template <int kVectors>
inline constexpr int forward_threads = kOneWarp<kVectors> ? static_cast<int>(kForwardThreads) : kMostThreads;
template <class T, int kVectors>
inline constexpr int forward_blocks = kOneWarp<kVectors> ? 65536 / static_cast<int>(kForwardThreads) /
                                                               (38 + kVectors * 4 * Raw<T, kVector>::kWords)
                                                         : 1;

// y may be x: a thread writes a piece after its last read.
template <class T, bool kCentered, bool kOfParts, int kVectors, int kWidth>
__global__ void __launch_bounds__(forward_threads<kVectors>, forward_blocks<T, kVectors>)
    forward_kernel(const Forward<T> f) {
  __shared__ float shared[kMostWarps];
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool present = index < f.rows;
  if (kOneWarp<kVectors> && !present) return;
  Row<T, kVectors, kWidth> row(f.x + index * f.x_stride, present ? f.cols : 0);
  Moments moments{0.0F, 0.0F};
  if constexpr (kOfParts) {
    if (present) moments = combined<kCentered>(f.statistics, f.parts, f.rows, index, f.cols);
  } else {
    moments = moments_of<kCentered>(row, f.share, shared);
  }
  if (!present) return;
  const float m = moments.mean;
  const float s = rsqrtf(moments.squares * f.share + f.eps);
  // Before the row is loaded: no load of a weight can then be moved above these stores, where registers are short.
  if (threadIdx.x == 0) {
    if constexpr (kCentered) f.mean[index] = m;
    f.rstd[index] = s;
  }
  row.visit_and_store(f.y + index * f.y_stride, [&](int column, auto& values) {
    float weight[kWidth];
    load(f.weight + column, weight);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = (values[i] - m) * s * weight[i];
    if constexpr (kCentered) {
      float bias[kWidth];
      load(f.bias + column, bias);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] += bias[i];
    }
  });
}

template <class T, bool kCentered, int kVectors, int kWidth>
__global__ void __launch_bounds__(forward_threads<kVectors>, forward_blocks<T, kVectors>)
    statistics_kernel(const T* x, std::int64_t x_stride, std::int64_t rows, int cols, float share, float* statistics) {
  __shared__ float shared[kMostWarps];
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool present = index < rows;
  if (kOneWarp<kVectors> && !present) return;
  Row<T, kVectors, kWidth> row(x + index * x_stride, present ? cols : 0);
  const Moments moments = moments_of<kCentered>(row, share, shared);
  if (!present || threadIdx.x != 0) return;
  float* out = statistics + index * (kCentered ? 2 : 1);
  if constexpr (kCentered) *out++ = moments.mean;
  *out = moments.squares;
}

/// Calls body(Number<vectors a thread>{}, Number<width>{}, teams) once, with the way in which teams hold rows of `cols`
/// columns.
template <class Body>
void with_held_rows(std::int64_t cols, bool wide, const Body& body) {
  if (!wide) return body(Number<0>{}, Number<1>{}, teams_for((cols + 3) / 4, kForwardThreads));
  const std::int64_t vectors = (cols + kVector - 1) / kVector;
  const auto of_warp = static_cast<int>(std::max<std::int64_t>(1, (vectors + kWarp - 1) / kWarp));
  if (constexpr int kMost = 8; of_warp <= kMost && of_warp != kTeamVectors) {
    return with_number<kMost>(of_warp,
                              [&](auto number) { body(number, Number<kVector>{}, teams_for(kWarp, kForwardThreads)); });
  }
  const Teams teams = teams_for((vectors + kTeamVectors - 1) / kTeamVectors, kForwardThreads);
  if (vectors <= std::int64_t{teams.across} * kTeamVectors) {
    body(Number<kTeamVectors>{}, Number<kVector>{}, teams);
  } else {
    body(Number<0>{}, Number<kVector>{}, teams);
  }
}

/// `statistics` of `parts` parts; null: of whole rows.
template <bool kOfParts>
void forward(const Launch& launch, float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y,
             const Matrix* statistics, std::int64_t parts) {
  const Matrix& x = norm.x;
  const Matrix& shift = bias != nullptr ? *bias : norm.weight;
  require_one_type(x, norm.weight, shift, y);
  if (x.rows == 0) return;
  const bool wide = vectorizable(x) && vectorizable(norm.weight) && vectorizable(shift) && vectorizable(y);
  with_kind(x.dtype, norm.mean != nullptr, [&]<class T, bool kCentered>(Kind<T, kCentered>) {
    Forward<T> f{};
    f.x = data_of<const T>(x), f.x_stride = x.row_stride;
    f.weight = data_of<const T>(norm.weight);
    f.y = data_of<T>(y), f.y_stride = y.row_stride;
    f.rstd = norm.rstd.f32();
    if constexpr (kCentered) f.bias = data_of<const T>(shift), f.mean = norm.mean->f32();
    if constexpr (kOfParts) f.statistics = statistics->f32();
    f.parts = parts, f.rows = x.rows, f.cols = static_cast<int>(x.cols), f.eps = eps;
    f.share = 1.0F / static_cast<float>(parts * x.cols);
    const auto run = [&](auto vectors, auto width, const Teams& teams) {
      start("norm_forward", launch,
            forward_kernel<T, kCentered, kOfParts, decltype(vectors)::value, decltype(width)::value>,
            teams.blocks(f.rows), teams.threads(), 0, f);
    };
    if constexpr (kOfParts) {
      with_passing_rows(x.cols, wide, run);
    } else {
      with_held_rows(x.cols, wide, run);
    }
  });
}

}  // namespace weft::cuda::norm
