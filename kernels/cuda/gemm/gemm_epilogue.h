// Matrix products with an epilogue (GELU, or its gradient): fused into cuBLASLt's product if it can, else by a kernel
// after the product.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/gemm/gemm.h"

namespace weft::cuda {

/// A product of any key with its buffers. Whether its epilogue is fused is decided at construction, from the key, the
/// buffers' alignment and the library's version: the same on every rank.
class GemmWithEpilogue {
 public:
  /// Like PreparedGemm, but C is always the matrix of sums, as in graph/operation.h. `other` is the matrix that the
  /// epilogue writes (gelu) or reads (gelu_gradient), of C's shape and dtype; null without an epilogue. Products with
  /// an epilogue have only their own layout.
  GemmWithEpilogue(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b, const Matrix& c,
                   const Matrix* bias, const Matrix* other, const GemmAlgorithm* algorithm,
                   GemmLayout layout = GemmLayout::own);

  void run(const Launch& launch) const;
  /// Algorithms of the library's product, which includes the epilogue if fused().
  std::vector<GemmAlgorithm> candidates(int most) const { return product_->candidates(most); }
  std::int64_t scratch_bytes() const { return product_->scratch_bytes(); }
  bool fused() const { return !behind_; }

 private:
  /// The kernel after a product.
  struct Behind {
    Epilogue epilogue;
    Matrix c, other;
  };

  std::optional<PreparedGemm> product_;
  std::optional<Behind> behind_;
};

}  // namespace weft::cuda
