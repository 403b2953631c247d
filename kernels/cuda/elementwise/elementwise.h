// Small kernels on a GPU; see kernels/cpu/elementwise/elementwise.h. `coordinate` and `index` are device memory: a
// GPU's stream doesn't wait for the host to read them.
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

/// x, y of equal element counts; y may be x.
void gelu_forward(const Launch& launch, const Matrix& x, const Matrix& y);
/// dx may be x or dy.
void gelu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y [rows, cols] from x = [gate | up] [rows, 2·cols].
void swiglu_forward(const Launch& launch, const Matrix& x, const Matrix& y);
/// dx may be x.
void swiglu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y [rows, cols] += bias [cols] on every row if *coordinate is 0, both of one float dtype.
void add_bias(const Launch& launch, const Matrix& y, const Matrix& bias, const std::int64_t* coordinate);

/// out [rows, cols] = columns [w·cols, (w+1)·cols) of x with w = ⌊*coordinate / ranks_per_window⌋, both of one float
/// dtype. If x has no such window, out isn't changed.
void take_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                  const Matrix& out);

/// The adjoint: columns [w·cols, (w+1)·cols) of out become x [rows, cols], the other columns become 0.
void put_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                 const Matrix& out);

}  // namespace weft::cuda
