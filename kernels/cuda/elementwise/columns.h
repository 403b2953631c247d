// Kernels for ranks that share rows, on a GPU; see kernels/cpu/elementwise/columns.h. `coordinate` is device memory: a
// GPU's stream doesn't wait for the host to read it.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// y [rows, cols] += bias [cols] on every row if *coordinate is 0, both of one float dtype.
void add_bias(const Launch& launch, const Matrix& y, const Matrix& bias, const std::int64_t* coordinate);

/// out [rows, cols] = columns [w·cols, (w+1)·cols) of x with w = ⌊*coordinate / ranks_per_window⌋, both of one float
/// dtype. If x has no such window, out isn't changed.
void take_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                  const Matrix& out);

/// The adjoint: columns [w·cols, (w+1)·cols) of out become x [rows, cols], the other columns become 0.
void put_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                 const Matrix& out);

}  // namespace weft::cuda
