#include "runtime/execute/tuning/small_numbers.h"

#include <cstdint>

namespace weft::execute {

void fill_with_small_numbers(const cpu::Matrix& matrix) {
  std::uint32_t state = 12345;
  for (std::int64_t i = 0; i < (matrix.rows - 1) * matrix.row_stride + matrix.cols; ++i) {
    state = state * 1664525U + 1013904223U;
    const float value = (static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F) * 0.1F;
    if (matrix.dtype == DType::bf16) {
      matrix.b16()[i] = bf16(value);
    } else {
      matrix.f32()[i] = value;
    }
  }
}

}  // namespace weft::execute
