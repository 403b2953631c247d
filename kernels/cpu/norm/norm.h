// Layer normalisation (Ba et al. 2016, arXiv:1607.06450) and root-mean-square normalisation (Zhang and Sennrich 2019,
// arXiv:1910.07467) over the last dimension, with their gradients: of whole rows; of rows whose columns are divided
// over several ranks, each of which has a part of every row (the parts exchange one or two numbers a row); and of each
// head of a row (Qwen3's queries and keys).
//
// LayerNorm is "centered": it has a bias and a mean. RMSNorm has neither: their pointers are null, and its mean is 0.
#pragma once

#include <cstdint>

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

/// Statistics of each row of a part x [rows, cols]: {mean, Σ (x − mean)²} if centered, else {Σ x²}.
/// x of a float dtype; statistics f32, contiguous, [rows, centered ? 2 : 1].
void norm_statistics(Workers& workers, bool centered, const Matrix& x, const Matrix& statistics);

/// y = (x − mean)·rstd·weight + bias for the rank's columns, with mean and rstd of the whole row, which consists of
/// `parts` parts of x.cols columns. `statistics`, f32, contiguous, [parts, rows, centered ? 2 : 1], holds the
/// statistics of all parts. They are combined in order (Chan, Golub and LeVeque 1979), so that every rank gets the same
/// bits. Writes mean, rstd and y. bias is null if mean is; y may be x.
void norm_forward_of_parts(Workers& workers, std::int64_t parts, float eps, const NormTensors& norm, const Matrix* bias,
                           const Matrix& statistics, const Matrix& y);

/// With x̂ = (x − mean)·rstd and g = dy·weight: for each row of the part, {Σ g, Σ g·x̂} if centered, else {Σ g·x̂}.
/// sums f32, contiguous, [rows, centered ? 2 : 1].
void norm_backward_sums(Workers& workers, const NormTensors& norm, const Matrix& dy, const Matrix& sums);

/// dx = rstd·(g − mean(g) − x̂·mean(g·x̂)), dweight = Σ dy·x̂, dbias = Σ dy for the rank's columns. `sums` are the
/// results of norm_backward_sums, summed over all parts. dx may be dy's memory. Its scratch is norm_backward_scratch().
void norm_backward_of_parts(Workers& workers, std::int64_t parts, const NormTensors& norm, const Matrix& dy,
                            const Matrix& sums, const NormGradients& gradients);

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
