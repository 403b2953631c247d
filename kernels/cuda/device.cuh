// Shared by the CUDA kernels: numbers as fp32, sums over warps and blocks in a fixed order, and dispatch on the element
// type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/start.cuh"

namespace weft::cuda {

inline constexpr int kWarp = 32;

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <class T>
__device__ inline T from_float(float x) {
  if constexpr (sizeof(T) == 4) {
    return x;
  } else {
    return __float2bfloat16_rn(x);
  }
}

/// Every lane gets the sum (or another combination) of its group of kLanes lanes: a butterfly, so that the order of
/// additions is fixed.
template <int kLanes, class Number, class Combine>
__device__ inline Number over_lanes(Number x, const Combine& combine) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x = combine(x, __shfl_xor_sync(0xffffffffU, x, offset));
  return x;
}
struct Sum {
  template <class Number>
  __device__ Number operator()(Number a, Number b) const {
    return a + b;
  }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
template <class Number>
__device__ inline Number warp_sum(Number x) {
  return over_lanes<kWarp>(x, Sum{});
}

/// Every thread of the block gets the combination over the block; `nothing` changes none. All threads must call; their
/// number is a multiple of 32. `shared` holds 32 numbers and may be reused at once.
template <class Number, class Combine>
__device__ inline Number over_block(Number x, Number nothing, Number* shared, const Combine& combine) {
  x = over_lanes<kWarp>(x, combine);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  __syncthreads();
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return over_lanes<kWarp>(lane < warps ? shared[lane] : nothing, combine);
}
template <class Number>
__device__ inline Number block_sum(Number x, Number* shared) {
  return over_block(x, Number{0}, shared, Sum{});
}
__device__ inline float block_max(float x, float* shared) {
  return over_block(x, -INFINITY, shared, Largest{});
}

/// Calls `body` with a null pointer of the element type for `dtype`; std::logic_error unless it is a float dtype.
template <class Body>
void with_float_type(DType dtype, const Body& body) {
  if (dtype == DType::f32) {
    body(static_cast<float*>(nullptr));
  } else if (dtype == DType::bf16) {
    body(static_cast<__nv_bfloat16*>(nullptr));
  } else {
    throw std::logic_error("a CUDA kernel for floats was given integers");
  }
}

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace weft::cuda
