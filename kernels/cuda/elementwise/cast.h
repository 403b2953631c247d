// Conversion between float dtypes.
#pragma once

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// out = x, rounded to nearest even if out's dtype is narrower; NaN stays NaN. Float dtypes, equal element counts; x
/// and out don't overlap unless their dtypes are equal.
void cast(const Launch& launch, const Matrix& x, const Matrix& out);

}  // namespace weft::cuda
