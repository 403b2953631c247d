#include "kernels/cpu/non_finite.h"

namespace weft::cpu {
namespace {

// NaNs and infinities are exactly the numbers whose exponent bits are all set. A row is first searched without a
// branch an element, which the compiler turns into vector code.
template <class Bits>
std::optional<std::int64_t> first_in_row(const Bits* row, std::int64_t cols, Bits exponent) {
  constexpr std::int64_t kChunk = 1024;
  for (std::int64_t begin = 0; begin < cols; begin += kChunk) {
    const std::int64_t end = begin + kChunk < cols ? begin + kChunk : cols;
    unsigned found = 0;
    for (std::int64_t i = begin; i < end; ++i) found |= static_cast<unsigned>((row[i] & exponent) == exponent);
    if (found == 0) continue;
    for (std::int64_t i = begin;; ++i) {
      if ((row[i] & exponent) == exponent) return i;
    }
  }
  return std::nullopt;
}

template <class Bits>
std::optional<std::int64_t> first_in(const Matrix& matrix, Bits exponent) {
  const auto* data = static_cast<const Bits*>(matrix.data);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    if (const auto col = first_in_row(data + r * matrix.row_stride, matrix.cols, exponent)) {
      return r * matrix.cols + *col;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> first_non_finite(const Matrix& matrix) {
  switch (matrix.dtype) {
    case DType::f32:
      return first_in<std::uint32_t>(matrix, 0x7f800000U);
    case DType::bf16:
      return first_in<std::uint16_t>(matrix, 0x7f80U);
    case DType::i32:
    case DType::i64:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace weft::cpu
