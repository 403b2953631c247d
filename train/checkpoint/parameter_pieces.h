// Pieces of Hugging Face's tensors in a rank's arrays, the units of sharded checkpoints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/sharding.h"

namespace weft::train {

/// Elements [range_begin, range_end), counted row-major, of the block of rows [row_begin, row_end) and columns
/// [col_begin, col_end) of a matrix [out, in]. A vector is a matrix of one row.
struct Region {
  std::int64_t row_begin = 0, row_end = 0, col_begin = 0, col_end = 0;
  std::int64_t range_begin = 0, range_end = 0;

  std::int64_t width() const { return col_end - col_begin; }
  std::int64_t elements() const { return range_end - range_begin; }
  /// The range is all of the block.
  bool whole_block() const { return range_begin == 0 && range_end == (row_end - row_begin) * width(); }
  /// The index within the range of the element at (row, col).
  std::int64_t index(std::int64_t row, std::int64_t col) const {
    return (row - row_begin) * width() + col - col_begin - range_begin;
  }
  /// Columns [first, last) of a row that lie in the range; first ≥ last: none.
  std::pair<std::int64_t, std::int64_t> columns_of(std::int64_t row) const;
  friend bool operator==(const Region&, const Region&) = default;
};

/// All of a matrix.
Region whole_region(std::int64_t rows, std::int64_t cols);

/// All of `stored`, one of spec.stored, rows counted from its own first; of a vector, its elements from its own first.
Region whole_region(const ops::ParameterSpec& spec, const ops::StoredTensor& stored);

/// The reason why regions within a matrix don't cover it exactly once: "miss 3 of its 48 elements", or "overlap at [2,
/// 0]"; "" if they do.
std::string cover_fault(std::int64_t rows, std::int64_t cols, std::span<const Region> regions);

/// Elements that are contiguous in a rank's array and in a stored tensor.
struct ParameterPiece {
  const ops::StoredTensor* stored = nullptr;
  Region region;           // rows (of a vector: elements) counted from stored->row_begin
  std::int64_t local = 0;  // place of its first element in the array
};

/// The pieces, in their order, of an array that holds elements [from, to) of a rank's block; padding is in none of
/// them.
///
///   L0.attn.qkv.weight of gpt2 [24, 8] on y=2 and x=2: c_attn.weight's rows 0–3, 8–11 and 16–19 are three pieces
std::vector<ParameterPiece> pieces_of(const ops::ParameterShard& shard, std::int64_t from, std::int64_t to);

/// Of an array that holds the whole parameter.
std::vector<ParameterPiece> pieces_of(const ops::ParameterSpec& spec);

}  // namespace weft::train
