// Row ranges and transpositions between the two layouts.
#include "train/parameter_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"

namespace weft {
namespace {

/// to[c][r] = from[r][c], in tiles that stay in cache.
template <class From, class To, class Convert>
void transpose(const From* from, std::size_t rows, std::size_t cols, To* to, Convert convert) {
  constexpr std::size_t kTile = 32;
  for (std::size_t r0 = 0; r0 < rows; r0 += kTile) {
    for (std::size_t c0 = 0; c0 < cols; c0 += kTile) {
      for (std::size_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (std::size_t c = c0; c < std::min(cols, c0 + kTile); ++c) to[c * rows + r] = convert(from[r * cols + c]);
      }
    }
  }
}

template <class Element>
std::span<const std::byte> pack_elements(const ParameterSpec& spec, const StoredTensor& piece, const void* data,
                                         std::vector<std::byte>& scratch) {
  const auto rows = static_cast<std::size_t>(piece.rows), cols = static_cast<std::size_t>(spec.cols);
  const Element* first = static_cast<const Element*>(data) + static_cast<std::size_t>(piece.row_begin) * cols;
  if (!piece.transposed) return std::as_bytes(std::span(first, rows * cols));
  scratch.resize(rows * cols * sizeof(Element));  // aligned as operator new aligns
  transpose(first, rows, cols, reinterpret_cast<Element*>(scratch.data()), [](Element value) { return value; });
  return scratch;
}

template <class Element>
void unpack_elements(std::span<const float> values, const ParameterSpec& spec, const StoredTensor& piece, void* data) {
  const auto rows = static_cast<std::size_t>(piece.rows), cols = static_cast<std::size_t>(spec.cols);
  Element* first = static_cast<Element*>(data) + static_cast<std::size_t>(piece.row_begin) * cols;
  const auto convert = [](float value) { return static_cast<Element>(value); };
  if (piece.transposed) {
    transpose(values.data(), cols, rows, first, convert);
  } else {
    std::transform(values.begin(), values.end(), first, convert);
  }
}

}  // namespace

std::vector<std::uint64_t> stored_shape(const ParameterSpec& spec, const StoredTensor& piece) {
  const auto rows = static_cast<std::uint64_t>(piece.rows), cols = static_cast<std::uint64_t>(spec.cols);
  if (!spec.matrix) return {cols};
  return piece.transposed ? std::vector{cols, rows} : std::vector{rows, cols};
}

std::span<const std::byte> pack(const ParameterSpec& spec, const StoredTensor& piece, DType dtype, const void* data,
                                std::vector<std::byte>& scratch) {
  if (dtype == DType::f32) return pack_elements<float>(spec, piece, data, scratch);
  if (dtype == DType::bf16) return pack_elements<bf16>(spec, piece, data, scratch);
  throw std::invalid_argument("pack: parameters are f32 or bf16");
}

void unpack(const SafetensorsFile& file, const StoredTensorInfo& tensor, const ParameterSpec& spec,
            const StoredTensor& piece, DType dtype, void* data) {
  const auto shape = stored_shape(spec, piece);
  if (tensor.shape != shape) {
    throw UserError(
        fmt::format("{}: tensor '{}' has shape {}", in_quotes(file.path()), tensor.name, shape_text(tensor.shape)),
        fmt::format("{} for this model", shape_text(shape)), "give the model sizes of the file");
  }
  std::vector<float> values(tensor.elements());
  file.read(tensor, values);
  if (dtype == DType::f32) return unpack_elements<float>(values, spec, piece, data);
  if (dtype == DType::bf16) return unpack_elements<bf16>(values, spec, piece, data);
  throw std::invalid_argument("unpack: parameters are f32 or bf16");
}

}  // namespace weft
