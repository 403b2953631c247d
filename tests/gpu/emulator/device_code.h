// nvcc's built-in names, for a host compiler that compiles CUDA sources: included before their first line.
#pragma once

// If CUDA's headers were included before this one, they define these as attributes.
#undef __host__
#undef __device__
#undef __global__
#undef __grid_constant__
#undef __launch_bounds__
#undef __shared__
#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
// A CPU thread runs one block at a time, so shared variables are thread-local; they keep values of earlier blocks.
#define __shared__ static thread_local

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "tests/gpu/emulator/block.h"

#define threadIdx (::weft::emulator::thread_index())
#define blockIdx (::weft::emulator::block_index())
#define blockDim (::weft::emulator::block_size())
#define gridDim (::weft::emulator::grid_size())

inline void __syncthreads() {
  weft::emulator::barrier();
}
inline void __barrier_sync_count(unsigned number, unsigned threads) {
  weft::emulator::barrier(number, threads);
}

inline void __syncwarp() {
  weft::emulator::with_warp([](std::span<void* const>) {}, nullptr);
}

template <class T>
struct ShuffledLane {
  T mine, theirs;
  int with;
};
template <class T>
inline T __shfl_xor_sync(unsigned /*all*/, T value, int lane_mask) {
  ShuffledLane<T> lane{value, value, lane_mask};
  weft::emulator::with_warp(
      [](std::span<void* const> lanes) {
        for (std::size_t l = 0; l < lanes.size(); ++l) {
          auto* const to = static_cast<ShuffledLane<T>*>(lanes[l]);
          to->theirs = static_cast<ShuffledLane<T>*>(lanes[l ^ static_cast<std::size_t>(to->with)])->mine;
        }
      },
      &lane);
  return lane.theirs;
}

inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline int __double2loint(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x));
}
/// PTX's prmt: each byte of the result is the byte of {high, low} selected by its four bits of `selector`.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t all = std::uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(all >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  }
  return result;
}
// A block's threads are fibers of one thread, and blocks run one after the other.
inline unsigned long long atomicMin(unsigned long long* address, unsigned long long value) {
  const unsigned long long before = *address;
  if (value < before) *address = value;
  return before;
}
inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
