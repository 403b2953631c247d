// Sums over the rows of a matrix (gradients of biases and norm weights). Blocks sum chunks of rows into partial sums,
// which a second kernel adds in order. The chunks depend only on the shape.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/vector_access.cuh"

namespace weft::cuda {

struct RowChunks {
  std::int64_t rows, count;  // rows of a chunk, and the number of chunks
};

inline constexpr int kColumnLanes = 32, kColumnTeams = 8, kCombineTeams = 32;

/// About four blocks for each multiprocessor of an H100; each thread has at least four rows.
inline RowChunks column_sum_chunks(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kBlocks = 528;
  if (rows == 0) return {0, 0};
  const std::int64_t tiles = std::max<std::int64_t>(1, blocks_for(cols, kColumnLanes * kVector));
  const std::int64_t most = blocks_for(rows, 4 * kColumnTeams);
  const std::int64_t chunks = std::clamp<std::int64_t>(blocks_for(kBlocks, tiles), 1, most);
  const std::int64_t per_chunk = blocks_for(rows, chunks);
  return {per_chunk, blocks_for(rows, per_chunk)};
}

inline std::int64_t partial_bytes(std::int64_t chunks, std::int64_t sums, std::int64_t cols) {
  return chunks * sums * cols * static_cast<std::int64_t>(sizeof(float));
}

/// partials[chunk][sum][column] = the terms that `terms` adds to totals[sum] over the chunk's rows. terms(row, column,
/// totals) handles kWidth columns.
template <int kWidth, int kSums, class Terms>
__global__ void __launch_bounds__(kColumnLanes* kColumnTeams)
    column_sums_kernel(const Terms terms, std::int64_t rows, int cols, std::int64_t rows_per_chunk, float* partials) {
  constexpr int kTile = kColumnLanes * kWidth;
  __shared__ float shared[kColumnTeams][kTile];
  await_earlier_kernels();
  const int first_column = blockIdx.x * kTile;
  const int column = first_column + static_cast<int>(threadIdx.x) * kWidth;
  const std::int64_t begin = blockIdx.y * rows_per_chunk;
  const std::int64_t end = begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;
  float totals[kSums][kWidth] = {};
  if (column < cols) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kColumnTeams) terms(row, column, totals);
  }
#pragma unroll
  for (int sum = 0; sum < kSums; ++sum) {
    if (sum > 0) __syncthreads();
#pragma unroll
    for (int i = 0; i < kWidth; ++i) shared[threadIdx.y][threadIdx.x * kWidth + i] = totals[sum][i];
    __syncthreads();
    const int i = static_cast<int>(threadIdx.y) * kColumnLanes + static_cast<int>(threadIdx.x);
    if (i < kTile && first_column + i < cols) {
      float total = shared[0][i];
#pragma unroll
      for (int team = 1; team < kColumnTeams; ++team) total += shared[team][i];
      partials[(static_cast<std::int64_t>(blockIdx.y) * kSums + sum) * cols + first_column + i] = total;
    }
  }
}

/// out[sum][column] (+)= Σ over chunks of partials[chunk][sum][column].
template <int kSums>
__global__ void __launch_bounds__(kColumnLanes* kCombineTeams)
    combine_column_sums_kernel(const float* partials, int chunks, int cols, float* out0, float* out1, bool accumulate) {
  __shared__ float shared[kCombineTeams][kColumnLanes];
  await_earlier_kernels();
  const int width = kSums * cols, i = blockIdx.x * kColumnLanes + threadIdx.x;
  float total = 0.0F;
  if (i < width) {
#pragma unroll 4
    for (int chunk = threadIdx.y; chunk < chunks; chunk += kCombineTeams) {
      total += partials[static_cast<std::int64_t>(chunk) * width + i];
    }
  }
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || i >= width) return;
#pragma unroll 8
  for (int team = 1; team < kCombineTeams; ++team) total += shared[team][threadIdx.x];
  float* out = kSums == 1 || i < cols ? out0 + i : out1 + (i - cols);
  *out = accumulate ? *out + total : total;
}

template <int kSums>
void combine_column_sums(const Launch& launch, const float* partials, std::int64_t chunks, std::int64_t cols,
                         float* out0, float* out1, bool accumulate) {
  if (cols == 0) return;
  const dim3 threads(kColumnLanes, kCombineTeams);
  start_early("combine_column_sums", launch, combine_column_sums_kernel<kSums>, blocks_for(kSums * cols, kColumnLanes),
              threads, partials, static_cast<int>(chunks), static_cast<int>(cols), out0, out1, accumulate);
}

/// Both steps. `partials` has partial_bytes(column_sum_chunks(rows, cols).count, kSums, cols) bytes. Sums over no rows
/// are zero.
template <int kWidth, int kSums, class Terms>
void column_sums(const Launch& launch, const Terms& terms, std::int64_t rows, std::int64_t cols, float* partials,
                 float* out0, float* out1, bool accumulate) {
  if (cols == 0) return;
  const RowChunks chunks = column_sum_chunks(rows, cols);
  if (chunks.count > 0) {
    const dim3 blocks(blocks_for(cols, kColumnLanes * kWidth), static_cast<unsigned>(chunks.count));
    const dim3 threads(kColumnLanes, kColumnTeams);
    start_early("column_sums", launch, column_sums_kernel<kWidth, kSums, Terms>, blocks, threads, terms, rows,
                static_cast<int>(cols), chunks.rows, partials);
  }
  combine_column_sums<kSums>(launch, partials, chunks.count, cols, out0, out1, accumulate);
}

}  // namespace weft::cuda
