// Matrix products: C (+)= op(A)·op(B) (+ bias), divided into slices by shape and prepared before the first step. And
// transposed copies of matrices, which some products read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

struct GemmArguments {
  Matrix a, b, c;
  std::optional<Matrix> bias;     // [n], added to every row of C; f32 or bf16
  std::byte* packed_b = nullptr;  // from pack_gemm_b(): read instead of b, by the packed engine only
};

/// A product with its buffers and library handles; run() makes no allocation of ours. A and B are both f32 (then C is
/// f32) or both bf16 (then C is f32 or bf16). Sums are fp32, rounded once. C overlaps neither A nor B. Throws
/// std::logic_error for other dtypes, and for a method that can_run() refuses.
class PreparedGemm {
 public:
  /// Uses the default method.
  PreparedGemm(const GemmShape& shape, const GemmArguments& arguments);
  /// `bf16`: the unit by which the packed engine multiplies bf16.
  PreparedGemm(const GemmShape& shape, const GemmArguments& arguments, const GemmMethod& method,
               PackedUnit bf16 = widest_bf16_unit());
  ~PreparedGemm();
  PreparedGemm(PreparedGemm&&) noexcept;
  PreparedGemm& operator=(PreparedGemm&&) noexcept;

  Scratch scratch() const;
  void run(Workers& workers) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The dtype and the number of elements of a B that is packed whole: 4 bytes each for f32, else 2.
DType packed_b_dtype(PackedUnit unit);
std::int64_t packed_b_elements(const GemmShape& shape);

/// Packs all of B (see GemmShape) into a vector of that size at `to`, 64-byte aligned. The result depends only on
/// shape.n, shape.k and B's values, so products with another m, or with transposed A, may read it.
void pack_gemm_b(Workers& workers, const GemmShape& shape, const Matrix& b, std::byte* to, PackedUnit unit);

/// One fp32 product on the calling thread, for kernels that consist of small tiles: C = op(A)·op(B) + beta·C,
/// row-major with the given row strides. With beta = 0, C isn't read.
void multiply_tiles(bool trans_a, bool trans_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                    std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);

/// to[cols, rows] = from[rows, cols], bit for bit; both f32 or both bf16. They don't overlap. Throws std::logic_error
/// for other dtypes and if the shapes don't fit.
void transpose(Workers& workers, const Matrix& from, const Matrix& to);

}  // namespace weft::cpu
