// Transposed copies of matrices.
#pragma once

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// to[cols, rows] = from[rows, cols], bit for bit; both f32 or both bf16. They don't overlap. Throws std::logic_error
/// for other dtypes and if the shapes don't fit.
void transpose(Workers& workers, const Matrix& from, const Matrix& to);

}  // namespace weft::cpu
