// Transposed copies of matrices.
#pragma once

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// to[cols, rows] = from[rows, cols], bit for bit; both f32 or both bf16. They don't overlap. Throws std::logic_error
/// for other dtypes and if the shapes don't fit.
void transpose(const Launch& launch, const Matrix& from, const Matrix& to);

}  // namespace weft::cuda
