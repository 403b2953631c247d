// The right-hand operand of a product, packed whole, so that several products can read it; see packed_gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/gemm/gemm_layout.h"
#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// The dtype and the number of elements of a B that is packed whole: 4 bytes each for f32, else 2.
DType packed_b_dtype(PackedUnit unit);
std::int64_t packed_b_elements(const GemmShape& shape);

/// Packs all of B (see GemmShape) into a vector of that size at `to`, 64-byte aligned. The result depends only on
/// shape.n, shape.k and B's values, so products with another m, or with transposed A, may read it.
void pack_gemm_b(Workers& workers, const GemmShape& shape, const Matrix& b, std::byte* to, PackedUnit unit);

}  // namespace weft::cpu
