// Rotary position embedding on a GPU; see kernels/cpu/attention/rope.h, which also computes the table of frequencies.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// Rotates x [rows, heads·head_dim] in place by position·frequency[j], position = *offset + row mod seq_len (`offset`
/// null: 0), and multiplies it by `factor`; `inverse` rotates the other way. `frequencies` has head_dim/2 numbers;
/// `frequencies` and `offset` are device memory.
void rope(const Launch& launch, const float* frequencies, std::int64_t heads, std::int64_t seq_len,
          const std::int64_t* offset, bool inverse, const Matrix& x, float factor = 1.0F);

}  // namespace weft::cuda
