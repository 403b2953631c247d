// Attention of one new token over cached keys and values, and the filling of the caches.
#pragma once

#include <cstdint>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"
#include "kernels/host_device.h"

namespace weft::cpu {

/// Row (b, s) of x [batch·seq, cols] becomes row (b, s) of cache [batch·context, cols]; seq ≤ context; one float dtype.
void cache_store(Workers& workers, std::int64_t batch, std::int64_t seq, std::int64_t context, const Matrix& x,
                 const Matrix& cache);

struct DecodeShape {
  std::int64_t batch, heads, kv_heads, head_dim, context;
  std::int64_t window = 0;  // 0: none

  /// The number of keys that the token at `position` sees.
  WEFT_HOST_DEVICE std::int64_t visible(std::int64_t position) const {
    return window > 0 && window <= position ? window : position + 1;
  }
};

/// q, out [batch, heads·head_dim]; k, v [batch, kv_heads·head_dim]; caches [batch·context, kv_heads·head_dim]; all of
/// one float dtype.
struct DecodeTensors {
  Matrix q, k, v, k_cache, v_cache, out;
};

/// Stores k and v at `position` of every sequence, then out = softmax(q·kᵀ/√head_dim)·v over positions 0 … position,
/// of which a window leaves the last.
/// Throws RuntimeFault if the position is outside the caches.
void attention_decode(Workers& workers, const DecodeShape& shape, std::int64_t position, const DecodeTensors& tensors);
Scratch attention_decode_scratch(const DecodeShape& shape);

}  // namespace weft::cpu
