// Layer normalisation (Ba et al. 2016, arXiv:1607.06450) over the last dimension, with its gradient.
#pragma once

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// y = (x − mean)·rstd·weight + bias per row, biased variance. x, y [rows, cols] and weight, bias [cols] of one float
/// dtype; mean, rstd f32 [rows].
void layer_norm_forward(Workers& workers, float eps, const Matrix& x, const Matrix& weight, const Matrix& bias,
                        const Matrix& y, const Matrix& mean, const Matrix& rstd);

struct LayerNormGradients {
  Matrix dx, dweight, dbias;          // dx [rows, cols]; dweight, dbias f32 [cols]
  const Matrix* dresidual = nullptr;  // [rows, cols], added to dx; may be dx itself
  bool accumulate = false;            // add to dweight and dbias
};

/// With x̂ = (x − mean)·rstd and g = dy·weight: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)), dweight = Σ dy·x̂, dbias = Σ dy.
/// dx may be dy's memory.
void layer_norm_backward(Workers& workers, const Matrix& x, const Matrix& weight, const Matrix& mean,
                         const Matrix& rstd, const Matrix& dy, const LayerNormGradients& gradients);
Scratch layer_norm_backward_scratch(std::int64_t rows, std::int64_t cols);

}  // namespace weft::cpu
