// Conversion between float dtypes.
#pragma once

#include "kernels/cpu/gemm/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// out = x, rounded to nearest even where out's dtype is the narrower; NaN stays NaN. Float dtypes and equal element
/// counts; they don't overlap unless the dtypes are equal.
void cast(Workers& workers, const Matrix& x, const Matrix& out);

}  // namespace weft::cpu
