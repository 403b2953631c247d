// Small kernels: the sum of two tensors, a multiple of one, zeros, a conversion, the gradient of a bias, the selection
// of a row; GELU with the tanh approximation (Hendrycks and Gimpel 2016, arXiv:1606.08415) and SwiGLU (Shazeer 2020,
// arXiv:2002.05202), with their gradients; and, for ranks that share rows, a bias that only one rank adds, and windows
// of columns. All arguments of an activation's call have one float dtype.
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

/// y = ½x(1 + tanh(√(2/π)(x + 0.044715x³))). x, y of equal element counts; y may be x.
void gelu_forward(Workers& workers, const Matrix& x, const Matrix& y);
/// dx = dy·gelu′(x). dx may be x or dy.
void gelu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y = silu(gate)·up with x = [gate | up]: x [rows, 2·cols], y [rows, cols].
void swiglu_forward(Workers& workers, const Matrix& x, const Matrix& y);
/// dx [rows, 2·cols] from x [rows, 2·cols] and dy [rows, cols]. dx may be x.
void swiglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y [rows, cols] += bias [cols] on every row, both of one float dtype.
void add_bias(Workers& workers, const Matrix& y, const Matrix& bias);

/// out [rows, cols] = columns [window·cols, (window+1)·cols) of x, both of one float dtype. Throws std::logic_error if
/// x has no such window.
void take_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out);

/// The adjoint of take_columns(): columns [window·cols, (window+1)·cols) of out become x [rows, cols], the other
/// columns become 0. Throws std::logic_error if out has no such window.
void put_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out);

}  // namespace weft::cpu
