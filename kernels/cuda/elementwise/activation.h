// GELU with the tanh approximation and SwiGLU, with their gradients, on a GPU; see
// kernels/cpu/elementwise/activation.h.
#pragma once

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// x, y of equal element counts; y may be x.
void gelu_forward(const Launch& launch, const Matrix& x, const Matrix& y);
/// dx may be x or dy.
void gelu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y [rows, cols] from x = [gate | up] [rows, 2·cols].
void swiglu_forward(const Launch& launch, const Matrix& x, const Matrix& y);
/// dx may be x.
void swiglu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx);

}  // namespace weft::cuda
