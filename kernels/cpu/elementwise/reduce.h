// The sum that communicators make of their ranks' messages: always in rank order, in fp32, rounded once.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace weft::cpu {

/// out[i] = sources[0][i] + sources[1][i] + …, for i < count; floats are added in fp32 and rounded to dtype once,
/// integers wrap. At least one source, whose sum is itself bit for bit; `out` may be one of them. However a message is
/// cut, the bits are the same.
void sum_in_rank_order(std::span<const void* const> sources, void* out, std::int64_t count, DType dtype);

}  // namespace weft::cpu
