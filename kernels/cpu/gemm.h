// Matrix products: C (+)= op(A)·op(B) (+ bias), cut into slices by shape and prepared before the first step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// C[m,n] from op(A) [m,k] and op(B) [k,n]. A is stored [k,m] if trans_a, B [n,k] if trans_b.
struct GemmShape {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  bool accumulate = false;  // add to what C holds
};

/// The output is computed in row_blocks × col_blocks slices of at most rows × cols elements. k is never cut.
struct GemmSlices {
  std::int64_t rows, cols, row_blocks, col_blocks;
};

/// About eight slices or more as soon as each is worth starting, at most ~250 MFLOP each, and of such proportions that
/// the libraries copy ("pack") as little of A and B as possible. Depends on the shape only.
GemmSlices gemm_slices(std::int64_t m, std::int64_t n, std::int64_t k);

/// How bf16 products are computed. oneDNN's bf16 kernels are 15 times its fp32 where the CPU has AMX, and half of fp32
/// where it only has AVX512_BF16 (vdpbf16ps): there it pays to convert slices to fp32.
enum class Bf16Path : std::uint8_t { convert, native };

/// `native` if the CPU, the operating system and oneDNN can use AMX for bf16.
Bf16Path default_bf16_path();

struct GemmArguments {
  Matrix a, b, c;
  std::optional<Matrix> bias;  // [n], added to every row of C; f32 or bf16
};

/// A product with its buffers and its library handles: run() allocates nothing of ours.
/// A and B are both f32 (then C is f32) or both bf16 (then C is f32 or bf16); sums are fp32, rounded once.
/// C overlaps neither A nor B. Throws std::logic_error for other dtypes.
class PreparedGemm {
 public:
  PreparedGemm(const GemmShape& shape, const GemmArguments& arguments, Bf16Path path = default_bf16_path());
  ~PreparedGemm();
  PreparedGemm(PreparedGemm&&) noexcept;
  PreparedGemm& operator=(PreparedGemm&&) noexcept;

  Scratch scratch() const;
  void run(Workers& workers) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One fp32 product on the calling thread, for kernels made of small tiles: C = alpha·op(A)·op(B) + beta·C, row-major
/// with the given row strides. With beta = 0, C is written only.
void multiply_tiles(bool trans_a, bool trans_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                    const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                    std::int64_t ldc);

}  // namespace weft::cpu
