// Layer and RMS normalisation (norm.h) of rows whose columns are divided over several ranks. Each rank has a part of
// every row; the parts exchange one or two numbers a row.
#pragma once

#include <cstdint>

#include "kernels/cpu/norm/norm.h"

namespace weft::cpu {

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

}  // namespace weft::cpu
