// Normalisation of whole rows; see norm.h.
#include "kernels/cuda/norm/norm.h"
#include "kernels/cuda/norm/norm_backward.cuh"
#include "kernels/cuda/norm/norm_forward.cuh"

namespace weft::cuda {

void norm_forward(const Launch& launch, float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y) {
  norm::forward<false>(launch, eps, norm, bias, y, nullptr, 1);
}

void norm_backward(const Launch& launch, const NormTensors& norm, const Matrix& dy, const NormGradients& gradients) {
  norm::backward<false>(launch, norm, dy, gradients, nullptr, 1);
}

std::int64_t norm_backward_scratch_bytes(bool centered, std::int64_t rows, std::int64_t cols) {
  return norm::backward_scratch_bytes(centered, rows, cols);
}

}  // namespace weft::cuda
