// Kernels for ranks that share rows: a bias that only one rank adds, and windows of columns.
#pragma once

#include <cstdint>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// y [rows, cols] += bias [cols] on every row, both of one float dtype.
void add_bias(Workers& workers, const Matrix& y, const Matrix& bias);

/// out [rows, cols] = columns [window·cols, (window+1)·cols) of x, both of one float dtype. Throws std::logic_error if
/// x has no such window.
void take_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out);

/// The adjoint of take_columns(): columns [window·cols, (window+1)·cols) of out become x [rows, cols], the other
/// columns become 0. Throws std::logic_error if out has no such window.
void put_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out);

}  // namespace weft::cpu
