// Root-mean-square normalisation of each head of a row, with its gradient; see kernels/cpu/norm/head_norm.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/norm/head_norm.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::HeadNormGradients;

/// For each row and head: y = x·rstd·weight with rstd = 1/√(mean x² + eps). x, y [rows, heads·head_dim] and weight
/// [head_dim] of one float dtype; rstd f32 [rows·heads]. y may be x.
void head_norm_forward(const Launch& launch, float eps, std::int64_t heads, const Matrix& x, const Matrix& weight,
                       const Matrix& y, const Matrix& rstd);

/// With x̂ = x·rstd and g = dy·weight: dx = rstd·(g − x̂·mean(g·x̂)) for each head, dweight = Σ dy·x̂ over rows and heads.
/// dx may be dy's memory.
void head_norm_backward(const Launch& launch, std::int64_t heads, const Matrix& x, const Matrix& weight,
                        const Matrix& rstd, const Matrix& dy, const HeadNormGradients& gradients);
std::int64_t head_norm_backward_scratch_bytes(std::int64_t rows, std::int64_t heads, std::int64_t head_dim);

}  // namespace weft::cuda
