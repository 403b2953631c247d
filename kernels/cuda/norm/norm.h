// Layer and RMS normalisation over the last dimension, of whole rows and of rows in parts, with their gradients, on a
// GPU; see kernels/cpu/norm/norm.h and kernels/cpu/norm/norm_parts.h, whose meaning of the arguments these functions
// share.
#pragma once

#include <cstdint>

#include "kernels/cpu/norm/norm_parts.h"
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

}  // namespace weft::cuda
