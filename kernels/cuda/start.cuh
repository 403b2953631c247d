// How kernels are started and get their shared memory. This is separate from the kernels so that tests can replace it:
// under tests/gpu/emulator, kernels are C++ that runs on a CPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// Launches `kernel`; requests more than the default shared memory if needed.
template <class... Parameters, class... Arguments>
void start(const char* name, const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
           std::size_t shared_bytes, const Arguments&... arguments) {
  constexpr std::size_t kWithoutAsking = 40 * 1024;  // in addition to 8 KiB of static memory
  if (shared_bytes > kWithoutAsking) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
          name);
  }
  kernel<<<blocks, threads, shared_bytes, launch.stream>>>(arguments...);
  check(cudaGetLastError(), name);
}

/// The block's shared memory of the size that start() was given, 16-byte aligned.
template <class T>
__device__ inline T* dynamic_shared() {
  extern __shared__ uint4 shared_area[];
  return reinterpret_cast<T*>(shared_area);
}

}  // namespace weft::cuda
