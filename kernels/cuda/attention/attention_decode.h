// Attention of one new token over cached keys and values, and the filling of the caches, on a GPU; see
// kernels/cpu/attention/attention_decode.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention_decode.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::DecodeShape;
using cpu::DecodeTensors;

/// Row (b, s) of x [batch·seq, cols] becomes row (b, s) of cache [batch·context, cols]; seq ≤ context; one float dtype.
void cache_store(const Launch& launch, std::int64_t batch, std::int64_t seq, std::int64_t context, const Matrix& x,
                 const Matrix& cache);

/// Stores k and v at *position of every sequence, then out = softmax(q·kᵀ/√head_dim)·v over positions 0 … *position.
/// `position` is device memory. A position outside the caches is a fault, and nothing is stored.
void attention_decode(const Launch& launch, const DecodeShape& shape, const std::int64_t* position,
                      const DecodeTensors& tensors);

}  // namespace weft::cuda
