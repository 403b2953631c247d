// A kernel's argument: a 2-D window of typed numbers.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace weft::cpu {

/// rows × cols elements of `dtype`, rows `row_stride` elements apart. A vector is one row.
struct Matrix {
  void* data = nullptr;
  std::int64_t rows = 1, cols = 0, row_stride = 0;
  DType dtype = DType::f32;

  float* f32(std::int64_t row = 0) const { return static_cast<float*>(data) + row * row_stride; }
  bf16* b16(std::int64_t row = 0) const { return static_cast<bf16*>(data) + row * row_stride; }
  std::int32_t* i32() const { return static_cast<std::int32_t*>(data); }
  std::int64_t* i64() const { return static_cast<std::int64_t*>(data); }
};

}  // namespace weft::cpu
