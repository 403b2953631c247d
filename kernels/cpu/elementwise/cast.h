// Conversion between float dtypes.
#pragma once

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// out = x, rounded to nearest even if out's dtype is narrower; NaN stays NaN. Float dtypes, equal element counts; x
/// and out don't overlap unless their dtypes are equal.
void cast(Workers& workers, const Matrix& x, const Matrix& out);

}  // namespace weft::cpu
