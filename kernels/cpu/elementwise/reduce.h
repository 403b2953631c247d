// The sum of messages from the ranks of a communicator: always in rank order, in fp32, rounded once.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace weft::cpu {

/// out[i] = sources[0][i] + sources[1][i] + …, for i < count. Floats are added in fp32 and rounded to dtype once;
/// integers wrap. There is at least one source; the sum of a single source equals it bit for bit. `out` may be one of
/// the sources. Dividing a message doesn't change the bits.
void sum_in_rank_order(std::span<const void* const> sources, void* out, std::int64_t count, DType dtype);

}  // namespace weft::cpu
