// Matrix products by cuBLASLt: C (+)= op(A)·op(B) (+ bias), with a choice among its algorithms that can be measured
// and kept. Where k is split, the pieces are added in fp32 in a fixed order, so each product repeats bit for bit.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/epilogue.h"
#include "kernels/cpu/gemm/gemm_layout.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::GemmLayout;

/// What decides which algorithms exist and which is fastest. Row-major: C[m,n] from op(A) [m,k] and op(B) [k,n]; A is
/// stored [k,m] if trans_a, B [n,k] if trans_b. `strides` are the rows' of A, B and C.
struct GemmKey {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false, accumulate = false, has_bias = false;
  DType inputs = DType::f32, output = DType::f32;
  std::array<std::int64_t, 3> strides{};
  Epilogue epilogue = Epilogue::none;

  auto operator<=>(const GemmKey&) const = default;
};

/// One way of cuBLASLt to compute a product. It means something to the version of cuBLASLt that made it, for products
/// of the same key shown in the same layout on the same kind of device.
struct GemmAlgorithm {
  std::array<std::uint64_t, 8> data{};

  bool operator==(const GemmAlgorithm&) const = default;
};

/// 128 hexadecimal digits in lower case, and back; no other spelling is accepted.
std::string to_hex(const GemmAlgorithm& algorithm);
std::optional<GemmAlgorithm> parse_hex(std::string_view text);

/// cuBLASLt on the device that was current when it was made. Shared by all products of the device. The first one loads
/// the library; see cublas_lt_functions.h for what it throws where there is none.
class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// cublasLtContext*, as the library's header has it.
  void* get() const { return handle_; }
  /// As cublasLtGetVersion(), of the library that runs: algorithms are no other version's.
  static std::size_t version();

 private:
  void* handle_ = nullptr;
};

/// Bytes of Launch::scratch that cuBLASLt is given for every product, on a 256-byte boundary.
constexpr std::int64_t kGemmWorkspace = std::int64_t{32} << 20;

/// A product with its buffers: run() allocates nothing of ours.
/// A and B are both f32 (then C is f32, computed in real fp32) or both bf16 (then C is f32 or bf16); sums are fp32,
/// rounded once. The bias has n elements of C's dtype: cuBLASLt takes no other (CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE).
/// C overlaps neither A nor B.
class PreparedGemm {
 public:
  /// `bias` is null unless key.has_bias; `algorithm` null: the heuristic's first. The CublasLt must outlive it.
  /// Throws std::logic_error where the key doesn't describe the matrices, for other dtypes, for a bias that cuBLASLt
  /// can't add (of another dtype than C, k = 0, or because no algorithm does: let the caller add it), and for an
  /// algorithm that use() refuses; RuntimeFault if there is no algorithm. In another layout than its own, which
  /// cpu::layout_fits() has to allow, run() first copies operands transposed into scratch.
  PreparedGemm(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b, const Matrix& c,
               const Matrix* bias, const GemmAlgorithm* algorithm, GemmLayout layout = GemmLayout::own);
  /// A product of a key with an epilogue, by one of the library's algorithms that have it; none if there is no such
  /// algorithm. gelu: C becomes gelu of the sums, which are written to `second`; gelu_gradient: `second` is read as x.
  /// It is of C's shape and dtype, begins on a 16-byte boundary, and its rows are a multiple of 8 elements apart.
  static std::optional<PreparedGemm> with_epilogue(const CublasLt& library, const GemmKey& key, const Matrix& a,
                                                   const Matrix& b, const Matrix& c, const Matrix* bias,
                                                   const Matrix& second, const GemmAlgorithm* algorithm);
  ~PreparedGemm();
  PreparedGemm(PreparedGemm&&) noexcept;
  PreparedGemm& operator=(PreparedGemm&&) noexcept;

  /// kGemmWorkspace and what the copies take; on a 256-byte boundary.
  std::int64_t scratch_bytes() const;
  void run(const Launch& launch) const;

  /// At most `most` algorithms that fit the product and its buffers' alignment, the heuristic's best guess first. None
  /// for a product of size 0, which needs none.
  std::vector<GemmAlgorithm> candidates(int most) const;

  /// Throws std::logic_error if cublasLtMatmulAlgoCheck or the buffers' alignment forbids it.
  void use(const GemmAlgorithm& algorithm);

 private:
  struct Impl;
  explicit PreparedGemm(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cuda
