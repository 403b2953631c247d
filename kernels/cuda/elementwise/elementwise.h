// The sum of two tensors, a multiple of one and the selection of a row, on a GPU; see
// kernels/cpu/elementwise/elementwise.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// out = a + b, of one float dtype and equal element counts; out may be a or b.
void add(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& out);

/// out = factor · x, of one float dtype and equal element counts; out may be x.
void scale(const Launch& launch, const Matrix& x, float factor, const Matrix& out);

/// out[cols] = row (*index mod rows) of x, converted to out's dtype. `index` is device memory.
void zero(const Launch& launch, const Matrix& out);
void select_row(const Launch& launch, const Matrix& x, const std::int64_t* index, const Matrix& out);

}  // namespace weft::cuda
