// Row ranges and transpositions.
#include "train/checkpoint/parameter_state.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace weft::train {
namespace {

/// to[c][r] = from[r][c], in tiles that stay in cache.
template <class Element>
void transpose(const Element* from, std::size_t rows, std::size_t cols, Element* to) {
  constexpr std::size_t kTile = 32;
  for (std::size_t r0 = 0; r0 < rows; r0 += kTile) {
    for (std::size_t c0 = 0; c0 < cols; c0 += kTile) {
      for (std::size_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (std::size_t c = c0; c < std::min(cols, c0 + kTile); ++c) to[c * rows + r] = from[r * cols + c];
      }
    }
  }
}

template <class Element>
std::span<const std::byte> pack_elements(const ops::ParameterSpec& spec, const ops::StoredTensor& piece,
                                         const void* data, std::vector<std::byte>& scratch) {
  const auto rows = static_cast<std::size_t>(piece.rows);
  const auto cols = spec.matrix ? static_cast<std::size_t>(spec.cols) : std::size_t{1};
  const Element* first = static_cast<const Element*>(data) + static_cast<std::size_t>(piece.row_begin) * cols;
  if (!piece.transposed) return std::as_bytes(std::span(first, rows * cols));
  scratch.resize(rows * cols * sizeof(Element));  // aligned as operator new aligns
  transpose(first, rows, cols, reinterpret_cast<Element*>(scratch.data()));
  return scratch;
}

void clear(const ops::ParameterShard& shard, std::int64_t from, std::int64_t to, DType dtype, void* array) {
  if (array == nullptr) return;
  for (const ops::ElementRun& run : shard.runs_within(from, to)) {
    if (run.global >= 0) continue;
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    std::memset(static_cast<std::byte*>(array) + run.local * size, 0, static_cast<std::size_t>(run.count * size));
  }
}

}  // namespace

void clear_padding(const MutableParameterState& parameter) {
  if (parameter.shard == nullptr) return;
  const ops::ParameterShard& shard = *parameter.shard;
  clear(shard, shard.begin, shard.end, parameter.dtype, parameter.data);
  for (float* array : {parameter.m, parameter.v, parameter.master}) {
    clear(shard, shard.update_begin, shard.update_end, DType::f32, array);
  }
}

std::vector<std::uint64_t> stored_shape(const ops::ParameterSpec& spec, const ops::StoredTensor& piece) {
  const auto rows = static_cast<std::uint64_t>(piece.rows), cols = static_cast<std::uint64_t>(spec.cols);
  if (!spec.matrix) return {rows};
  return piece.transposed ? std::vector{cols, rows} : std::vector{rows, cols};
}

std::span<const std::byte> pack(const ops::ParameterSpec& spec, const ops::StoredTensor& piece, DType dtype,
                                const void* data, std::vector<std::byte>& scratch) {
  if (dtype == DType::f32) return pack_elements<float>(spec, piece, data, scratch);
  if (dtype == DType::bf16) return pack_elements<bf16>(spec, piece, data, scratch);
  throw std::invalid_argument("pack: parameters are f32 or bf16");
}

}  // namespace weft::train
