// Finds NaNs and infinities in the results of a task or in the data of a checkpoint.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/matrix.h"

namespace weft::execute {

/// The first element, counted row-major within the window, that is a NaN or an infinity; nothing for integers. Reads
/// each element once, at the speed of memory.
std::optional<std::int64_t> first_non_finite(const cpu::Matrix& matrix);

}  // namespace weft::execute
