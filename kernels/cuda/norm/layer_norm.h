// Layer normalisation (Ba et al. 2016, arXiv:1607.06450) over the last dimension, with its gradient.
#pragma once

#include <cstdint>

#include "kernels/cpu/norm/layer_norm.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::LayerNormGradients;

/// y = (x − mean)·rstd·weight + bias per row, biased variance. x, y [rows, cols] and weight, bias [cols] of one float
/// dtype; mean, rstd f32 [rows]. y may be x.
void layer_norm_forward(const Launch& launch, float eps, const Matrix& x, const Matrix& weight, const Matrix& bias,
                        const Matrix& y, const Matrix& mean, const Matrix& rstd);

/// With x̂ = (x − mean)·rstd and g = dy·weight: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)), dweight = Σ dy·x̂, dbias = Σ dy.
/// dx may be dy's memory.
void layer_norm_backward(const Launch& launch, const Matrix& x, const Matrix& weight, const Matrix& mean,
                         const Matrix& rstd, const Matrix& dy, const LayerNormGradients& gradients);
std::int64_t layer_norm_backward_scratch_bytes(std::int64_t rows, std::int64_t cols);

}  // namespace weft::cuda
