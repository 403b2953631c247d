// The sum that communicators make of their ranks' messages: always in rank order, in fp32, rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

inline constexpr std::size_t kMostSources = 64;

/// out[i] = sources[0][i] + sources[1][i] + …, for i < count; floats are added in fp32 and rounded to dtype once,
/// integers wrap. One to kMostSources sources in device memory (`sources` itself is the host's), else std::logic_error;
/// `out` may be one of them. However a message is cut, the bits are the same.
void sum_in_rank_order(const Launch& launch, std::span<const void* const> sources, void* out, std::int64_t count,
                       DType dtype);

}  // namespace weft::cuda
