// Root-mean-square normalisation of each head of a row (Qwen3's queries and keys), with its gradient.
#pragma once

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// For each row and head: y = x·rstd·weight with rstd = 1/√(mean x² + eps) over the head's columns. x, y [rows,
/// heads·head_dim], whose rows need not be adjacent, and weight [head_dim] of one float dtype; rstd f32 [rows·heads].
void head_norm_forward(Workers& workers, float eps, std::int64_t heads, const Matrix& x, const Matrix& weight,
                       const Matrix& y, const Matrix& rstd);

struct HeadNormGradients {
  Matrix dx, dweight;       // dx [rows, heads·head_dim]; dweight f32 [head_dim]
  bool accumulate = false;  // add to dweight
};

/// With x̂ = x·rstd and g = dy·weight: dx = rstd·(g − x̂·mean(g·x̂)) for each head, dweight = Σ dy·x̂ over rows and heads.
/// dx may be dy's memory.
void head_norm_backward(Workers& workers, std::int64_t heads, const Matrix& x, const Matrix& weight, const Matrix& rstd,
                        const Matrix& dy, const HeadNormGradients& gradients);
Scratch head_norm_backward_scratch(std::int64_t rows, std::int64_t head_dim);

}  // namespace weft::cpu
