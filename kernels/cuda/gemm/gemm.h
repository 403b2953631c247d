// Matrix products by cuBLASLt: C (+)= op(A)·op(B) (+ bias). Its algorithms can be measured, and the choice kept. Parts
// of a split k are added in fp32 in a fixed order, so each product is reproducible bit for bit.
// An epilogue (GELU, its gradient, a matrix that is added, a bias's gradient) is fused into the product if cuBLASLt
// can, else a kernel after it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/gemm/gemm_layout.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::GemmLayout;

/// With the strides of matrices in device memory.
using GemmKey = cpu::GemmProblem;

/// One of cuBLASLt's algorithms for a product. It is valid for the version of cuBLASLt that made it, and for products
/// of the same key in the same layout on the same kind of device.
struct GemmAlgorithm {
  std::array<std::uint64_t, 8> data{};

  bool operator==(const GemmAlgorithm&) const = default;
};

/// To 128 hexadecimal digits in lower case, and back; no other spelling is accepted.
std::string to_hex(const GemmAlgorithm& algorithm);
std::optional<GemmAlgorithm> parse_hex(std::string_view text);

/// The matrices that a product may have beside A, B and C.
struct GemmSideMatrices {
  const Matrix* bias = nullptr;    // null unless key.has_bias
  const Matrix* second = nullptr;  // of an epilogue. gelu: C becomes gelu of the sums, which are written here;
                                   // gelu_gradient: read as x. Of C's shape and dtype, on a 16-byte boundary, in rows
                                   // of a multiple of 8 elements
  const Matrix* addend = nullptr;  // C = addend + op(A)·op(B), if key.accumulate; of C's shape, dtype and row stride
  /// Written, in C's dtype. With gelu_gradient the sums of C's columns, else the sums of op(A)'s rows.
  const Matrix* bias_gradient = nullptr;
  bool into_scratch = false;  // the bias's gradient is written to the scratch after kGemmWorkspace, not to its matrix
};

/// cuBLASLt on the device that was current at construction. All products of the device share it. The first object loads
/// the library; see cublas_lt_functions.h for the error if there is none.
class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// cublasLtContext*, the type of the library's header.
  void* get() const { return handle_; }
  /// cublasLtGetVersion() of the loaded library: algorithms are valid only for this version.
  static std::size_t version();

 private:
  void* handle_ = nullptr;
};

/// Bytes of Launch::scratch that cuBLASLt gets for every product, on a 256-byte boundary.
constexpr std::int64_t kGemmWorkspace = std::int64_t{32} << 20;
/// Bytes of scratch of a product in a layout: kGemmWorkspace plus those of the copies, or of a bias's gradient.
std::int64_t gemm_scratch_bytes(const GemmKey& key, GemmLayout layout);

/// A product with its buffers: run() makes no allocation of ours. A and B are both f32 (then C is f32, computed in real
/// fp32, or with key.tf32 from factors rounded to TF32) or both bf16 (then C is f32 or bf16). Sums are fp32, rounded
/// once. The bias has n elements of C's dtype: cuBLASLt accepts no other (CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE). C
/// overlaps neither A nor B.
class PreparedGemm {
 public:
  /// `bias` is null unless key.has_bias. If `algorithm` is null, the heuristic's first is used. The CublasLt must
  /// outlive the product. Throws std::logic_error if the key doesn't describe the matrices, for other dtypes, for an
  /// algorithm that use() refuses, and for a bias that cuBLASLt can't add (another dtype than C's, k = 0, or no
  /// algorithm adds it): then the caller has to add it. Throws RuntimeFault if there is no algorithm. In a layout other
  /// than its own, which cpu::layout_fits() must allow, run() first copies operands transposed into scratch.
  PreparedGemm(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b, const Matrix& c,
               const Matrix* bias, const GemmAlgorithm* algorithm, GemmLayout layout = GemmLayout::own);
  /// A product in its own layout with side matrices beyond a bias, by a library algorithm that takes them; nothing if
  /// there is none. Throws as the constructor does.
  static std::optional<PreparedGemm> with_epilogue(const CublasLt& library, const GemmKey& key, const Matrix& a,
                                                   const Matrix& b, const Matrix& c, const GemmSideMatrices& side,
                                                   const GemmAlgorithm* algorithm);
  ~PreparedGemm();
  PreparedGemm(PreparedGemm&&) noexcept;
  PreparedGemm& operator=(PreparedGemm&&) noexcept;

  /// gemm_scratch_bytes(), on a 256-byte boundary.
  std::int64_t scratch_bytes() const;
  void run(const Launch& launch) const;

  /// At most `most` algorithms that fit the product and its buffers' alignment, the heuristic's best guess first. Empty
  /// for a product of size 0, which needs no algorithm.
  std::vector<GemmAlgorithm> candidates(int most) const;

  /// Throws std::logic_error if cublasLtMatmulAlgoCheck or the buffers' alignment forbids the algorithm.
  void use(const GemmAlgorithm& algorithm);

 private:
  struct Impl;
  explicit PreparedGemm(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

/// A product of any key with its buffers. Whether its epilogue is fused is decided at construction, from the key, the
/// buffers' alignment and the library's version: the same on every rank.
class GemmWithEpilogue {
 public:
  /// Like PreparedGemm, but C is always the matrix of sums, as in graph/operation.h. `other` is the matrix that the
  /// epilogue writes (gelu) or reads (gelu_gradient, add), of C's shape and dtype, or a bias's gradient, fp32 [m]; null
  /// without an epilogue. Products with an epilogue have only their own layout.
  GemmWithEpilogue(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b, const Matrix& c,
                   const Matrix* bias, const Matrix* other, const GemmAlgorithm* algorithm,
                   GemmLayout layout = GemmLayout::own);

  void run(const Launch& launch) const;
  /// Algorithms of the library's product, which includes the epilogue if fused().
  std::vector<GemmAlgorithm> candidates(int most) const { return product_->candidates(most); }
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  bool fused() const { return !behind_; }

 private:
  /// The kernel after a product.
  struct Behind {
    Epilogue epilogue;
    Matrix c, other;
    Matrix a;  // whose rows are summed
    bool accumulate;
  };

  bool fuse(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b, const Matrix& c,
            const Matrix* bias, const Matrix& other, const GemmAlgorithm* algorithm);

  std::optional<PreparedGemm> product_;
  std::optional<Behind> behind_;
  std::optional<Matrix> updated_;  // gets what the product has written to scratch
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace weft::cuda
