// How kernels are started and get their shared memory. This is separate from the kernels so that tests can replace it:
// under tests/gpu/emulator, kernels are C++ that runs on a CPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// Launches `kernel`, and before it asks for more than the default shared memory if needed: as much as a block can
/// have, since other launches of the kernel may need more than this.
template <class... Parameters, class... Arguments>
void start(const char* name, const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
           std::size_t shared_bytes, const Arguments&... arguments) {
  constexpr std::size_t kWithoutAsking = 40 * 1024;  // in addition to 8 KiB of static memory
  if (shared_bytes > kWithoutAsking && launch.part != LaunchPart::kernels) {
    cudaFuncAttributes own{};
    check(cudaFuncGetAttributes(&own, kernel), name);
    const int most =
        std::max(launch.shared_bytes - static_cast<int>(own.sharedSizeBytes), static_cast<int>(shared_bytes));
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most), name);
  }
  if (launch.part == LaunchPart::attributes) return;
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
