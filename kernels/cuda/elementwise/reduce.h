// The sum of messages from the ranks of a communicator: always in rank order, in fp32, rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

inline constexpr std::size_t kMostSources = 64;

/// out[i] = sources[0][i] + sources[1][i] + …, for i < count. Floats are added in fp32 and rounded to dtype once;
/// integers wrap. Takes one to kMostSources sources in device memory (`sources` itself is in host memory), else throws
/// std::logic_error; `out` may be one of the sources. Dividing a message doesn't change the bits.
void sum_in_rank_order(const Launch& launch, std::span<const void* const> sources, void* out, std::int64_t count,
                       DType dtype);

}  // namespace weft::cuda
