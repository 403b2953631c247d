// Layer normalisation; see layer_norm.h.
#include "kernels/cuda/norm/layer_norm.h"
#include "kernels/cuda/norm/norm_backward.cuh"
#include "kernels/cuda/norm/norm_forward.cuh"

namespace weft::cuda {

void layer_norm_forward(const Launch& launch, float eps, const Matrix& x, const Matrix& weight, const Matrix& bias,
                        const Matrix& y, const Matrix& mean, const Matrix& rstd) {
  norm::forward<true, false>(launch, eps, {x, weight, &bias, y, &mean, rstd, nullptr, 1});
}

void layer_norm_backward(const Launch& launch, const Matrix& x, const Matrix& weight, const Matrix& mean,
                         const Matrix& rstd, const Matrix& dy, const LayerNormGradients& gradients) {
  norm::backward<true, false>(launch, {x, weight, &mean, rstd, dy, &gradients.dx, gradients.dresidual, nullptr, 1},
                              gradients.dweight.f32(), gradients.dbias.f32(), gradients.accumulate);
}

std::int64_t layer_norm_backward_scratch_bytes(std::int64_t rows, std::int64_t cols) {
  return norm::backward_scratch_bytes(true, rows, cols);
}

}  // namespace weft::cuda
