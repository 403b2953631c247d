// Layer normalisation (Ba et al. 2016, arXiv:1607.06450) and root-mean-square normalisation (Zhang and Sennrich 2019,
// arXiv:1910.07467) over the last dimension, with their gradients.
//
// LayerNorm is "centered": it has a bias and a mean. RMSNorm has neither: their pointers are null, and its mean is 0.
#pragma once

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

struct NormTensors {
  Matrix x, weight;    // [rows, cols], [cols] of one float dtype
  const Matrix* mean;  // f32 [rows]; null: not centered
  Matrix rstd;         // f32 [rows]
};

/// y = (x − mean)·rstd·weight + bias per row, with rstd = 1/√(variance + eps), biased variance. Writes mean, rstd and y
/// [rows, cols]. bias is null if mean is; y may be x.
void norm_forward(Workers& workers, float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y);

struct NormGradients {
  Matrix dx, dweight;                 // [rows, cols]; f32 [cols]
  const Matrix* dbias = nullptr;      // f32 [cols]; null if mean is
  const Matrix* dresidual = nullptr;  // [rows, cols], added to dx; may be dx itself
  bool accumulate = false;            // add to dweight and dbias
};

/// With x̂ = (x − mean)·rstd and g = dy·weight: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)), dweight = Σ dy·x̂, dbias = Σ dy.
/// If not centered, mean(g) is left out. dx may be dy's memory.
void norm_backward(Workers& workers, const NormTensors& norm, const Matrix& dy, const NormGradients& gradients);
Scratch norm_backward_scratch(bool centered, std::int64_t rows, std::int64_t cols);

}  // namespace weft::cpu
