// How kernels are started and get their shared memory. This is separate from the kernels so that tests can replace it:
// under tests/gpu/emulator, kernels are C++ that runs on a CPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// Lets a kernel have more than the default shared memory, if `bytes` are more: as much as a block can have, since
/// other launches of the kernel may need more than this.
template <class Kernel>
void allow_shared(const char* name, const Launch& launch, Kernel* kernel, std::size_t bytes) {
  constexpr std::size_t kWithoutAsking = 40 * 1024;  // in addition to 8 KiB of static memory
  if (bytes <= kWithoutAsking || launch.part == LaunchPart::kernels) return;
  cudaFuncAttributes own{};
  check(cudaFuncGetAttributes(&own, kernel), name);
  const int most = std::max(launch.shared_bytes - static_cast<int>(own.sharedSizeBytes), static_cast<int>(bytes));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most), name);
}

/// Launches `kernel`, and before it asks for more than the default shared memory if needed.
template <class... Parameters, class... Arguments>
void start(const char* name, const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
           std::size_t shared_bytes, const Arguments&... arguments) {
  allow_shared(name, launch, kernel, shared_bytes);
  if (launch.part == LaunchPart::attributes) return;
  kernel<<<blocks, threads, shared_bytes, launch.stream>>>(arguments...);
  check(cudaGetLastError(), name);
}
template <class... Parameters, class... Arguments>
void start_with(cudaLaunchAttribute attribute, const char* name, const Launch& launch, void (*kernel)(Parameters...),
                dim3 blocks, dim3 threads, std::size_t shared_bytes, const Arguments&... arguments) {
  allow_shared(name, launch, kernel, shared_bytes);
  if (launch.part == LaunchPart::attributes) return;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared_bytes;
  config.stream = launch.stream, config.attrs = &attribute, config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), name);
}

/// Launches a kernel whose threads all begin with await_earlier_kernels(). With launch.early its blocks take their
/// places while the kernel before it in the stream ends (programmatic dependent launch, from compute capability 9.0
/// on); in a captured graph, too.
template <class... Parameters, class... Arguments>
void start_early(const char* name, const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                 const Arguments&... arguments) {
  if (!launch.early) return start(name, launch, kernel, blocks, threads, 0, arguments...);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  start_with(early, name, launch, kernel, blocks, threads, 0, arguments...);
}

/// Launches a kernel in clusters of kOfCluster blocks, neighbours in x, whose shared memory is all dynamic (from
/// compute capability 9.0 on).
inline constexpr int kOfCluster = 4;
template <class... Parameters, class... Arguments>
void start_clusters(const char* name, const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                    std::size_t shared_bytes, const Arguments&... arguments) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kOfCluster, 1, 1};
  start_with(cluster, name, launch, kernel, blocks, threads, shared_bytes, arguments...);
}

/// Waits until all that came before the kernel in its stream has ended and is in memory, then lets the next kernel take
/// its place early. Comes before any access to memory; does nothing in a kernel that wasn't launched early.
__device__ inline void await_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits for all threads of the cluster; what they wrote to shared memory before is there.
__device__ inline void cluster_barrier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
/// What `mine`, a number in this block's shared memory, is in block `rank` of the cluster, which must not have ended.
__device__ inline float of_block(int rank, const float* mine) {
  float theirs = 0.0F;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  std::uint32_t address = static_cast<std::uint32_t>(__cvta_generic_to_shared(mine));
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(theirs) : "r"(address) : "memory");
#endif
  return theirs;
}

/// The block's shared memory of the size that start() was given, 16-byte aligned.
template <class T>
__device__ inline T* dynamic_shared() {
  extern __shared__ uint4 shared_area[];
  return reinterpret_cast<T*>(shared_area);
}

}  // namespace weft::cuda
