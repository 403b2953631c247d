// Products with epilogues; see gemm_epilogue.h.
#include "kernels/cuda/gemm/gemm_epilogue.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "kernels/cuda/elementwise/activation.h"

namespace weft::cuda {
namespace {

// cuBLASLt's requirements for its second matrix (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), and equal strides for both:
// tuned algorithms are kept by C's stride. cuBLASLt has no epilogue that adds a bias before GELU's gradient.
bool can_fuse(const GemmKey& key, const Matrix& c, const Matrix& other) {
  constexpr std::int64_t kStrideUnit = 8;
  constexpr std::uintptr_t kAlignment = 16;
  const auto aligned = [](const Matrix& matrix) {
    return reinterpret_cast<std::uintptr_t>(matrix.data) % kAlignment == 0;
  };
  const bool empty = key.m == 0 || key.n == 0 || key.k == 0;
  const bool known = !key.accumulate && (key.epilogue == Epilogue::gelu || !key.has_bias);
  return known && !empty && c.row_stride == other.row_stride && std::max(c.row_stride, c.cols) % kStrideUnit == 0 &&
         aligned(c) && aligned(other);
}

}  // namespace

GemmWithEpilogue::GemmWithEpilogue(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b,
                                   const Matrix& c, const Matrix* bias, const Matrix* other,
                                   const GemmAlgorithm* algorithm, GemmLayout layout) {
  if (other != nullptr && layout != GemmLayout::own) {
    throw std::logic_error("cuda::GemmWithEpilogue: an epilogue needs the product's own layout");
  }
  if ((other != nullptr) != (key.epilogue != Epilogue::none)) {
    throw std::logic_error("cuda::GemmWithEpilogue: an epilogue and its matrix must be given together");
  }
  if (other != nullptr && can_fuse(key, c, *other)) {
    // The library's C is the epilogue's result, and its second matrix the epilogue's input.
    const bool forward = key.epilogue == Epilogue::gelu;
    const GemmSideMatrices side{.bias = bias, .second = forward ? &c : other};
    product_ = PreparedGemm::with_epilogue(library, key, a, b, forward ? *other : c, side, algorithm);
    if (product_) return;
  }
  GemmKey plain = key;
  plain.epilogue = Epilogue::none;
  product_.emplace(library, plain, a, b, c, bias, algorithm, layout);
  if (other != nullptr) behind_ = Behind{key.epilogue, c, *other};
}

void GemmWithEpilogue::run(const Launch& launch) const {
  product_->run(launch);
  if (!behind_) return;
  const auto& [epilogue, c, other] = *behind_;
  if (epilogue == Epilogue::gelu) {
    gelu_forward(launch, c, other);
  } else {
    gelu_backward(launch, other, c, c);
  }
}

}  // namespace weft::cuda
