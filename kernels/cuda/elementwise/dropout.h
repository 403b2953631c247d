// Dropout on a GPU, with the mask of kernels/cpu/elementwise/dropout.h to the bit.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

struct DropoutMask {
  std::uint32_t site;
  std::int64_t row_offset;         // the matrix' first row is global row row_base + row_offset
  float p;                         // in [0, 1): the chance that an element is dropped
  std::int64_t parts;              // the matrix is one of so many windows of columns of a global one
  const std::int64_t* random;      // device: {seed, step, row_base}
  const std::int64_t* coordinate;  // device: which window it is; null: the first
};

/// y = x·mask/(1−p) (+ residual), all of one float dtype [rows, cols]; y may be x or residual; residual may be null.
void dropout(const Launch& launch, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y);

}  // namespace weft::cuda
