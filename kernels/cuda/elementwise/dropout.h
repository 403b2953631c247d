// Dropout on a GPU, with exactly the mask of kernels/cpu/elementwise/dropout.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

struct DropoutMask {
  std::uint32_t site;
  std::int64_t row_offset;         // the matrix's first row is global row row_base + row_offset
  float p;                         // in [0, 1): the probability that an element is dropped
  std::int64_t parts;              // the matrix is one of `parts` windows of columns of a global matrix
  const std::int64_t* random;      // device: {seed, step, row_base}
  const std::int64_t* coordinate;  // device: the index of the window; null: the first
};

/// y = x·mask/(1−p) (+ residual), all of one float dtype [rows, cols]; y may be x or residual; residual may be null.
void dropout(const Launch& launch, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y);

}  // namespace weft::cuda
