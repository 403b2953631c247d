// The first NaN or infinity of a matrix.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/matrix.h"

namespace weft::cpu {

/// The first element, counted row-major within the window, that is a NaN or an infinity; nothing for integers. Reads
/// each element once, at the speed of memory.
std::optional<std::int64_t> first_non_finite(const Matrix& matrix);

}  // namespace weft::cpu
