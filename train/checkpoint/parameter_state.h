// A parameter with its optimizer state as arrays of the host, the pieces of Hugging Face's tensors in them, which are
// the units of sharded checkpoints, and the conversion to and from the tensors of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "ops/model_config.h"
#include "ops/sharding.h"
#include "train/checkpoint/safetensors.h"

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

/// Elements [begin, end) of a rank's block of a parameter, or of the whole.
struct BlockRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// One rank's arrays of one parameter: rows × cols elements each, row-major, as Weft holds them, or what `shard` says:
/// `data` its elements [begin, end), the others [update_begin, update_end). `data` is of `dtype` (f32 or bf16). `m` and
/// `v` are AdamW's moments, which a frozen parameter lacks; `master` is the fp32 copy of a bf16 parameter and of one
/// that ZeRO-1 cuts, else nullptr.
struct ParameterState {
  const ops::ParameterSpec* spec = nullptr;
  DType dtype = DType::f32;
  void* data = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* master = nullptr;
  const ops::ParameterShard* shard = nullptr;

  /// The elements that `data`, and that each of the other arrays holds.
  BlockRange kept() const;
  BlockRange updated() const;
  /// The pieces of stored tensors in an array of these elements.
  std::vector<ParameterPiece> pieces(const BlockRange& range) const;
};

/// Fills the arrays of one of a saved model's parameters, in any order and as often as wanted.
using ParameterReader = std::function<void(const ParameterState& parameter)>;

/// Sets the padding of a shard's arrays to zero.
void clear_padding(const ParameterState& parameter);

/// The shape of `piece`, one of spec.stored, in files: [rows, cols], or [cols, rows] when transposed; a vector's
/// [rows].
std::vector<std::uint64_t> stored_shape(const ops::ParameterSpec& spec, const ops::StoredTensor& piece);

/// The elements of `piece` in the stored layout, out of an array `data` that holds the whole parameter; transposed ones
/// lie in `scratch`.
std::span<const std::byte> pack(const ops::ParameterSpec& spec, const ops::StoredTensor& piece, DType dtype,
                                const void* data, std::vector<std::byte>& scratch);

/// Reads elements [first, first + out.size()) of a tensor, which has them.
using ElementReader = std::function<void(std::uint64_t first, std::span<float> out)>;

/// Both must outlive the reader.
ElementReader elements_of(const SafetensorsFile& file, const StoredTensorInfo& tensor);

/// The elements of a region, as a tensor of a file holds them: row-major, or, if `transposed`, all of its block
/// column by column (GPT-2's Conv1D matrices).
struct TensorSource {
  ElementReader read;
  Region region;
  bool transposed = false;
};

/// Throws UserError, naming file and tensor, on another shape.
void expect_shape(const SafetensorsFile& file, const StoredTensorInfo& tensor, const std::vector<std::uint64_t>& shape);

/// A tensor that holds all of `piece`, one of spec.stored. Throws UserError, naming file and tensor, on another shape
/// than stored_shape().
TensorSource whole_source(const SafetensorsFile& file, const StoredTensorInfo& tensor, const ops::ParameterSpec& spec,
                          const ops::StoredTensor& piece);

/// Copies the elements that the source and the piece have in common into the piece's array, converted to its `dtype`,
/// f32 or bf16 (rounded to nearest even). Reads no others from the file.
void copy(const TensorSource& source, const ParameterPiece& piece, DType dtype, void* array);

/// The same for the pieces of an array that belong to `stored`, a part of which is the source.
void copy(const TensorSource& source, const ops::StoredTensor& stored, std::span<const ParameterPiece> pieces,
          DType dtype, void* array);

}  // namespace weft::train
