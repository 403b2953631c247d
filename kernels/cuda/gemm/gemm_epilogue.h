// Matrix products with an epilogue (GELU, or its gradient): within cuBLASLt's product where it has one, else as a
// kernel behind the product.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/gemm/gemm.h"

namespace weft::cuda {

/// A product of any key with its buffers. Which of the two ways it goes is decided when it is made, from the key, the
/// buffers' alignment and the library's version: the same on every rank.
class GemmWithEpilogue {
 public:
  /// As PreparedGemm, but C is always the sums' matrix as graph/operation.h has it. `other` is what the epilogue writes
  /// (gelu) or reads (gelu_gradient), of C's shape and dtype; null unless key.epilogue. Products with an epilogue have
  /// no layout but their own.
  GemmWithEpilogue(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b, const Matrix& c,
                   const Matrix* bias, const Matrix* other, const GemmAlgorithm* algorithm,
                   GemmLayout layout = GemmLayout::own);

  void run(const Launch& launch) const;
  /// Of the library's product, which has the epilogue if fused().
  std::vector<GemmAlgorithm> candidates(int most) const { return product_->candidates(most); }
  std::int64_t scratch_bytes() const { return product_->scratch_bytes(); }
  bool fused() const { return !behind_; }

 private:
  /// The kernel behind a product.
  struct Behind {
    Epilogue epilogue;
    Matrix c, other;
  };

  std::optional<PreparedGemm> product_;
  std::optional<Behind> behind_;
};

}  // namespace weft::cuda
