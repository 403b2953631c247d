// Root-mean-square normalisation (Zhang and Sennrich 2019, arXiv:1910.07467) over the last dimension, with its
// gradient.
#pragma once

#include <cstdint>

#include "kernels/cpu/norm/rms_norm.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::RmsNormGradients;

/// y = x·rstd·weight with rstd = 1/√(mean x² + eps) per row. x, y [rows, cols] and weight [cols] of one float dtype;
/// rstd f32 [rows]. y may be x.
void rms_norm_forward(const Launch& launch, float eps, const Matrix& x, const Matrix& weight, const Matrix& y,
                      const Matrix& rstd);

/// With x̂ = x·rstd and g = dy·weight: dx = rstd·(g − x̂·mean(g·x̂)), dweight = Σ dy·x̂. dx may be dy's memory.
void rms_norm_backward(const Launch& launch, const Matrix& x, const Matrix& weight, const Matrix& rstd,
                       const Matrix& dy, const RmsNormGradients& gradients);
std::int64_t rms_norm_backward_scratch_bytes(std::int64_t rows, std::int64_t cols);

}  // namespace weft::cuda
