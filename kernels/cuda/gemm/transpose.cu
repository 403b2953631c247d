// Transposed copies by square tiles in shared memory; see elementwise.h. A tile is 32 words wide; a word holds one f32
// or two bf16, so a warp reads and writes 128 adjacent bytes. Rows are 33 words apart, so that the words of a column
// are in different banks, like the words of a row. With bf16, the even rows come before the odd rows. Lane l takes word
// w of two consecutive rows from places l and l + 32; these words hold the elements that two rows of the result have at
// columns 2l and 2l + 1.
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/elementwise.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;

// Elements as bits: copies don't change them.
template <class Bits>
constexpr int kPerWord = 4 / static_cast<int>(sizeof(Bits));
template <class Bits>
constexpr int kSide = kWarp * 4 / static_cast<int>(sizeof(Bits));

template <class Bits>
struct Rows {
  Bits* data;
  std::int64_t stride, rows, cols;
  bool words;  // every row begins at a word boundary
};

/// The word of row `row` from column `col` on; 0 outside the matrix.
template <class Bits>
__device__ std::uint32_t load_word(const Rows<const Bits>& from, std::int64_t row, std::int64_t col) {
  if (row >= from.rows || col >= from.cols) return 0;
  const Bits* at = from.data + row * from.stride + col;
  if constexpr (sizeof(Bits) == 4) {
    return *at;
  } else {
    const bool both = col + 1 < from.cols;
    if (both && from.words) return *reinterpret_cast<const std::uint32_t*>(at);
    const std::uint32_t low = at[0], high = both ? at[1] : 0;
    return low | high << 16;
  }
}

template <class Bits>
__device__ void store_word(const Rows<Bits>& to, std::int64_t row, std::int64_t col, std::uint32_t word) {
  if (row >= to.rows || col >= to.cols) return;
  Bits* at = to.data + row * to.stride + col;
  if constexpr (sizeof(Bits) == 4) {
    *at = word;
  } else {
    const bool both = col + 1 < to.cols;
    if (both && to.words) {
      *reinterpret_cast<std::uint32_t*>(at) = word;
      return;
    }
    at[0] = static_cast<Bits>(word);
    if (both) at[1] = static_cast<Bits>(word >> 16);
  }
}

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const Rows<const Bits> from, const Rows<Bits> to, unsigned tiles_a_row) {
  constexpr int kTileSide = kSide<Bits>, kReads = kTileSide / kWarps, kWrites = kWarp / kWarps;
  __shared__ std::uint32_t tile[kTileSide][kWarp + 1];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x / tiles_a_row) * kTileSide;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.x % tiles_a_row) * kTileSide;
  // All are loaded before any is stored, so that the loads are in flight together.
  std::uint32_t words[kReads];
#pragma unroll
  for (int i = 0; i < kReads; ++i) {
    words[i] = load_word(from, first_row + warp + i * kWarps, first_col + lane * kPerWord<Bits>);
  }
#pragma unroll
  for (int i = 0; i < kReads; ++i) {
    const int row = warp + i * kWarps;
    const int place = kPerWord<Bits> == 1 ? row : row / 2 + row % 2 * kWarp;
    tile[place][lane] = words[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kWrites; ++i) {
    const int word = warp + i * kWarps;
    if constexpr (kPerWord<Bits> == 1) {
      store_word(to, first_col + word, first_row + lane, tile[lane][word]);
    } else {
      const std::uint32_t even = tile[lane][word], odd = tile[lane + kWarp][word];
      const std::int64_t row = first_col + 2 * word, col = first_row + 2 * lane;
      store_word(to, row, col, __byte_perm(even, odd, 0x5410));
      store_word(to, row + 1, col, __byte_perm(even, odd, 0x7632));
    }
  }
}

template <class Bits>
auto rows_of(const Matrix& matrix) {
  using Element = std::remove_const_t<Bits>;
  const bool even = matrix.rows <= 1 || matrix.row_stride % kPerWord<Element> == 0;
  return Rows<Bits>{static_cast<Bits*>(matrix.data), matrix.row_stride, matrix.rows, matrix.cols,
                    even && reinterpret_cast<std::uintptr_t>(matrix.data) % 4 == 0};
}

template <class Bits>
void launch_kernel(const Launch& launch, const Matrix& from, const Matrix& to) {
  const unsigned tiles_a_row = blocks_for(from.cols, kSide<Bits>);
  start("transpose", launch, transpose_kernel<Bits>, blocks_for(from.rows, kSide<Bits>) * tiles_a_row, kThreads, 0,
        rows_of<const Bits>(from), rows_of<Bits>(to), tiles_a_row);
}

}  // namespace

void transpose(const Launch& launch, const Matrix& from, const Matrix& to) {
  if (to.rows != from.cols || to.cols != from.rows || to.dtype != from.dtype) {
    throw std::logic_error("cuda::transpose: the shapes or dtypes don't fit");
  }
  if (from.rows == 0 || from.cols == 0) return;
  if (from.dtype == DType::f32) {
    launch_kernel<std::uint32_t>(launch, from, to);
  } else if (from.dtype == DType::bf16) {
    launch_kernel<std::uint16_t>(launch, from, to);
  } else {
    throw std::logic_error("cuda::transpose: not a float dtype");
  }
}

}  // namespace weft::cuda
