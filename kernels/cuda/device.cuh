// Shared by the CUDA kernels: 16-byte loads and stores of eight numbers as fp32, sums over warps and blocks in a fixed
// order, and dispatch on the element type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/start.cuh"

namespace weft::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kVector = 8;  // elements that a thread loads or stores at once

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

/// Loads eight adjacent elements; `from` must be 16-byte aligned.
__device__ inline void load8(const float* from, float (&to)[8]) {
  const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
  to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
  to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}
__device__ inline void load8(const __nv_bfloat16* from, float (&to)[8]) {
  const uint4 bits = *reinterpret_cast<const uint4*>(from);
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(words[i] << 16);
    to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
}
__device__ inline void store8(float* to, const float (&from)[8]) {
  reinterpret_cast<float4*>(to)[0] = make_float4(from[0], from[1], from[2], from[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(from[4], from[5], from[6], from[7]);
}
__device__ inline void store8(__nv_bfloat16* to, const float (&from)[8]) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
    words[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

/// Every lane gets the sum of all 32 lanes: a butterfly, so that the order of additions is fixed.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffU, x, offset);
  return x;
}
__device__ inline double warp_sum(double x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffU, x, offset);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, offset));
  return x;
}

/// Every thread of the block gets the sum over the block. All threads must call; their number is a multiple of 32.
/// `shared` holds 32 numbers and may be reused at once.
template <class Number>
__device__ inline Number block_sum(Number x, Number* shared) {
  x = warp_sum(x);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  __syncthreads();
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? shared[lane] : Number{0});
}
__device__ inline float block_max(float x, float* shared) {
  x = warp_max(x);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  __syncthreads();
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warp_max(lane < warps ? shared[lane] : -INFINITY);
}

/// Whether rows of `matrix` can be read and written eight elements at a time.
inline bool vectorizable(const Matrix& matrix) {
  return matrix.cols % kVector == 0 && matrix.row_stride % kVector == 0 &&
         reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0;
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
