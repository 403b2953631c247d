// Conversion between float dtypes.
#pragma once

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// out = x, rounded to nearest even where out's dtype is the narrower; NaN stays NaN. Float dtypes and equal element
/// counts; they don't overlap unless the dtypes are equal.
void cast(const Launch& launch, const Matrix& x, const Matrix& out);

}  // namespace weft::cuda
