// Small kernels on a GPU; see kernels/cpu/elementwise/elementwise.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// out = a + b, of one float dtype and equal element counts; out may be a or b.
void add(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& out);

/// out = factor · x, of one float dtype and equal element counts; out may be x.
void scale(const Launch& launch, const Matrix& x, float factor, const Matrix& out);

/// out = 0.
void zero(const Launch& launch, const Matrix& out);

/// out = x, rounded to nearest even if out's dtype is narrower; NaN stays NaN. Float dtypes, equal element counts; x
/// and out don't overlap unless their dtypes are equal.
void cast(const Launch& launch, const Matrix& x, const Matrix& out);

/// db[cols] (+)= Σ over rows of dy [rows, cols]; db f32.
void bias_gradient(const Launch& launch, const Matrix& dy, const Matrix& db, bool accumulate);
std::int64_t bias_gradient_scratch_bytes(std::int64_t rows, std::int64_t cols);

/// out[cols] = row (*index mod rows) of x, converted to out's dtype. `index` is device memory.
void select_row(const Launch& launch, const Matrix& x, const std::int64_t* index, const Matrix& out);

}  // namespace weft::cuda
