// GELU with the tanh approximation (Hendrycks and Gimpel 2016, arXiv:1606.08415) and SwiGLU (Shazeer 2020,
// arXiv:2002.05202), with their gradients. All arguments of a call have one float dtype.
#pragma once

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// y = ½x(1 + tanh(√(2/π)(x + 0.044715x³))). x, y of equal element counts; y may be x.
void gelu_forward(Workers& workers, const Matrix& x, const Matrix& y);
/// dx = dy·gelu′(x). dx may be x or dy.
void gelu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y = silu(gate)·up with x = [gate | up]: x [rows, 2·cols], y [rows, cols].
void swiglu_forward(Workers& workers, const Matrix& x, const Matrix& y);
/// dx [rows, 2·cols] from x [rows, 2·cols] and dy [rows, cols]. dx may be x.
void swiglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx);

}  // namespace weft::cpu
