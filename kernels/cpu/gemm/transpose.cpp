// Transposed copies; see gemm.h.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/block_transpose.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// The part that a worker takes at a time, and the tile of it that is read in columns while the first-level cache holds
// it.
constexpr std::int64_t kChunkRows = 128, kChunkCols = kChunkElements / kChunkRows, kTile = 64;

// For vectors made by load(), so that no bit is lost: a bf16 is the upper half of a lane.
void store_bits(float* to, Floats value, std::int64_t count) {
  std::memcpy(to, &value, static_cast<std::size_t>(count) * sizeof(float));
}
void store_bits(bf16* to, Floats value, std::int64_t count) {
  const Halves halves = narrow_words(lanes_cast<Words>(value) >> 16);
  std::memcpy(static_cast<void*>(to), &halves, static_cast<std::size_t>(count) * sizeof(bf16));
}

template <class T>
void copy_whole_block(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  Floats block[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) block[i] = load(from + i * from_stride);
  transpose(block);
  for (std::int64_t i = 0; i < kLanes; ++i) store_bits(to + i * to_stride, block[i], kLanes);
}

// At most kLanes rows and columns.
template <class T>
void copy_block(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t cols, T* to,
                std::int64_t to_stride) {
  if (rows == kLanes && cols == kLanes) return copy_whole_block(from, from_stride, to, to_stride);
  for (std::int64_t col = 0; col < cols; ++col) {
    for (std::int64_t row = 0; row < rows; ++row) to[col * to_stride + row] = from[row * from_stride + col];
  }
}

template <class T>
void copy_tile(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t cols, T* to,
               std::int64_t to_stride) {
  for (std::int64_t col = 0; col < cols; col += kLanes) {
    for (std::int64_t row = 0; row < rows; row += kLanes) {
      copy_block(from + row * from_stride + col, from_stride, std::min(kLanes, rows - row),
                 std::min(kLanes, cols - col), to + col * to_stride + row, to_stride);
    }
  }
}

}  // namespace

void transpose(Workers& workers, const Matrix& from, const Matrix& to) {
  if (to.rows != from.cols || to.cols != from.rows) throw std::logic_error("transpose: the shapes don't fit");
  const std::int64_t col_chunks = ceil_div(from.cols, kChunkCols);
  with_element_type(common_dtype(from, to), [&]<class T>(std::type_identity<T>) {
    workers.run(ceil_div(from.rows, kChunkRows) * col_chunks, [&](std::int64_t chunk) {
      const std::int64_t row = chunk / col_chunks * kChunkRows, first_col = chunk % col_chunks * kChunkCols;
      const std::int64_t end_row = std::min(from.rows, row + kChunkRows);
      const std::int64_t end_col = std::min(from.cols, first_col + kChunkCols);
      for (std::int64_t r = row; r < end_row; r += kTile) {
        for (std::int64_t c = first_col; c < end_col; c += kTile) {
          copy_tile(elements<T>(from, r) + c, from.row_stride, std::min(kTile, end_row - r),
                    std::min(kTile, end_col - c), elements<T>(to, c) + r, to.row_stride);
        }
      }
    });
  });
}

}  // namespace weft::cpu
