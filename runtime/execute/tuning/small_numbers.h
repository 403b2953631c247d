// Operands for measurements.
#pragma once

#include "kernels/cpu/matrix.h"

namespace weft::execute {

/// Fills the matrix, with what lies between its rows, with small numbers of both signs. Sums stay where floats have
/// their digits. Memory that was never written is one page of zeros, which would always be in the cache, and products
/// of zeros take less power than others.
void fill_with_small_numbers(const cpu::Matrix& matrix);

}  // namespace weft::execute
