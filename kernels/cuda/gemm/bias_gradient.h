// The gradient of a bias: the sum of the rows of dy.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// db[cols] (+)= Σ over rows of dy [rows, cols]; db f32.
void bias_gradient(const Launch& launch, const Matrix& dy, const Matrix& db, bool accumulate);
std::int64_t bias_gradient_scratch_bytes(std::int64_t rows, std::int64_t cols);

}  // namespace weft::cuda
