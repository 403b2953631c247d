// Layer and RMS normalisation over the last dimension, of whole rows, of rows in parts and of heads, with their
// gradients, on a GPU; see kernels/cpu/norm/norm.h, whose meaning of the arguments these functions share.
#pragma once

#include <cstdint>

#include "kernels/cpu/norm/norm.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::NormGradients;
using cpu::NormTensors;

void norm_forward(const Launch& launch, float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y);
void norm_backward(const Launch& launch, const NormTensors& norm, const Matrix& dy, const NormGradients& gradients);
/// Of whole rows and of rows in parts.
std::int64_t norm_backward_scratch_bytes(bool centered, std::int64_t rows, std::int64_t cols);

void norm_statistics(const Launch& launch, bool centered, const Matrix& x, const Matrix& statistics);
void norm_forward_of_parts(const Launch& launch, std::int64_t parts, float eps, const NormTensors& norm,
                           const Matrix* bias, const Matrix& statistics, const Matrix& y);
void norm_backward_sums(const Launch& launch, const NormTensors& norm, const Matrix& dy, const Matrix& sums);
void norm_backward_of_parts(const Launch& launch, std::int64_t parts, const NormTensors& norm, const Matrix& dy,
                            const Matrix& sums, const NormGradients& gradients);

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
