// Dropout. Its mask is a pure function of seed, step, site and global element, so it is never stored: the backward pass
// draws it again, and no grid or schedule changes it.
#pragma once

#include <cstdint>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

struct DropoutMask {
  std::uint64_t seed;
  std::uint32_t step, site;
  std::int64_t first_row;  // global row of the matrix's first row
  float p;                 // in [0, 1): the probability that an element is dropped
  // The matrix is columns [part·cols, (part+1)·cols) of a global matrix with cols·parts columns.
  std::int64_t parts = 1, part = 0;
};

/// y = x·mask/(1−p) (+ residual). Element (row, col) draws bits e mod 8 of philox_quad(seed, step, site, e/8), where e
/// = ((first_row + row)·parts + part)·cols + col; kernels/dropout_formula.h tells how p becomes a threshold. All
/// matrices [rows, cols] of one float dtype; y may be x or residual; residual may be null.
void dropout(Workers& workers, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y);

}  // namespace weft::cpu
