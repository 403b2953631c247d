// Root-mean-square normalisation (Zhang and Sennrich 2019, arXiv:1910.07467) over the last dimension, with its
// gradient.
#pragma once

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// y = x·rstd·weight with rstd = 1/√(mean x² + eps) per row. x, y [rows, cols] and weight [cols] of one float dtype;
/// rstd f32 [rows].
void rms_norm_forward(Workers& workers, float eps, const Matrix& x, const Matrix& weight, const Matrix& y,
                      const Matrix& rstd);

struct RmsNormGradients {
  Matrix dx, dweight;                 // dx [rows, cols]; dweight f32 [cols]
  const Matrix* dresidual = nullptr;  // [rows, cols], added to dx; may be dx itself
  bool accumulate = false;            // add to dweight
};

/// With x̂ = x·rstd and g = dy·weight: dx = rstd·(g − x̂·mean(g·x̂)), dweight = Σ dy·x̂. dx may be dy's memory.
void rms_norm_backward(Workers& workers, const Matrix& x, const Matrix& weight, const Matrix& rstd, const Matrix& dy,
                       const RmsNormGradients& gradients);
Scratch rms_norm_backward_scratch(std::int64_t rows, std::int64_t cols);

}  // namespace weft::cpu
