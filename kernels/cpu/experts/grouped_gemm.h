// Products of each expert's rows with its own matrix (graph::GroupedGemm). The groups run one after the other on
// the packed engine, whose workers share each of them. Every number of threads gives the same bits.
#pragma once

#include "base/packed_unit.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// C[rows, n] = A[rows, k]·op(B_g) for the rows of each group; B is [groups·n, k] if trans_b, else [groups·k, n]. All
/// f32 or all bf16; offsets i32 [groups + 1], ascending from 0 to at most rows. Rows beyond the last offset stay.
void grouped_gemm(Workers& workers, bool trans_b, const Matrix& a, const Matrix& b, const Matrix& offsets,
                  const Matrix& c, PackedUnit bf16);
Scratch grouped_gemm_scratch(std::int64_t rows, std::int64_t n, std::int64_t k, DType dtype, PackedUnit bf16);

/// C_g (+)= A_gᵀ·B_g: A [rows, m], B [rows, n] of one dtype, C f32 [groups·m, n].
void grouped_gemm_gradient(Workers& workers, const Matrix& a, const Matrix& b, const Matrix& offsets, const Matrix& c,
                           bool accumulate, PackedUnit bf16);
Scratch grouped_gemm_gradient_scratch(std::int64_t rows, std::int64_t m, std::int64_t n, DType dtype, PackedUnit bf16);

}  // namespace weft::cpu
