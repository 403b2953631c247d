// Small kernels: the sum of two tensors, a multiple of one, zeros, a conversion, the gradient of a bias, the selection
// of a row.
#pragma once

#include <cstdint>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// out = a + b, of one float dtype and equal element counts; out may be a or b.
void add(Workers& workers, const Matrix& a, const Matrix& b, const Matrix& out);

/// out = factor · x, of one float dtype and equal element counts; out may be x.
void scale(Workers& workers, const Matrix& x, float factor, const Matrix& out);

/// out = 0.
void zero(Workers& workers, const Matrix& out);

/// out = x, rounded to nearest even if out's dtype is narrower; NaN stays NaN. Float dtypes, equal element counts; x
/// and out don't overlap unless their dtypes are equal.
void cast(Workers& workers, const Matrix& x, const Matrix& out);

/// db[cols] (+)= Σ over rows of dy [rows, cols]; db f32.
void bias_gradient(Workers& workers, const Matrix& dy, const Matrix& db, bool accumulate);
Scratch bias_gradient_scratch(std::int64_t rows, std::int64_t cols);

/// out[cols] = row (index mod rows) of x, converted to out's dtype.
void select_row(Workers& workers, const Matrix& x, std::int64_t index, const Matrix& out);

}  // namespace weft::cpu
