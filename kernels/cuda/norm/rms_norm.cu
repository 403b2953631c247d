// Root-mean-square normalisation; see rms_norm.h.
#include "kernels/cuda/norm/norm_backward.cuh"
#include "kernels/cuda/norm/norm_forward.cuh"
#include "kernels/cuda/norm/rms_norm.h"

namespace weft::cuda {

void rms_norm_forward(const Launch& launch, float eps, const Matrix& x, const Matrix& weight, const Matrix& y,
                      const Matrix& rstd) {
  norm::forward<false, false>(launch, eps, {x, weight, nullptr, y, nullptr, rstd, nullptr, 1});
}

void rms_norm_backward(const Launch& launch, const Matrix& x, const Matrix& weight, const Matrix& rstd,
                       const Matrix& dy, const RmsNormGradients& gradients) {
  norm::backward<false, false>(launch, {x, weight, nullptr, rstd, dy, &gradients.dx, gradients.dresidual, nullptr, 1},
                               gradients.dweight.f32(), nullptr, gradients.accumulate);
}

std::int64_t rms_norm_backward_scratch_bytes(std::int64_t rows, std::int64_t cols) {
  return norm::backward_scratch_bytes(false, rows, cols);
}

}  // namespace weft::cuda
