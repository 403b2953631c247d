// Replaces the header of this name: kernels are enqueued on the emulated GPU.
#pragma once

#include <cstddef>

#include "kernels/cuda/launch.h"
#include "tests/gpu/emulator/block.h"
#include "tests/gpu/emulator/gpu.h"

namespace weft::cuda {

template <class... Parameters, class... Arguments>
void start(const char* name, const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
           std::size_t shared_bytes, const Arguments&... arguments) {
  if (launch.part == LaunchPart::attributes) return;
  const auto call = [kernel](Parameters... parameters) { return [=] { kernel(parameters...); }; };
  check(emulator::enqueue_kernel(launch.stream, name, blocks, threads, shared_bytes, call(arguments...)), name);
}

template <class... Parameters, class... Arguments>
void start_early(const char* name, const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                 const Arguments&... arguments) {
  if (launch.part == LaunchPart::attributes) return;
  const auto call = [kernel](Parameters... parameters) { return [=] { kernel(parameters...); }; };
  const auto how = launch.early ? emulator::KernelStart::early : emulator::KernelStart::in_order;
  check(emulator::enqueue_kernel(launch.stream, name, blocks, threads, 0, call(arguments...), how), name);
}
inline void await_earlier_kernels() {
  emulator::await_earlier();
}

inline constexpr int kOfCluster = 4;
template <class... Parameters, class... Arguments>
void start_clusters(const char* name, const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                    std::size_t shared_bytes, const Arguments&... arguments) {
  if (launch.part == LaunchPart::attributes) return;
  const auto call = [kernel](Parameters... parameters) { return [=] { kernel(parameters...); }; };
  check(emulator::enqueue_kernel(launch.stream, name, blocks, threads, shared_bytes, call(arguments...),
                                 emulator::KernelStart::in_order, kOfCluster),
        name);
}
inline void cluster_barrier() {
  emulator::cluster_barrier();
}
inline float of_block(int rank, const float* mine) {
  return *reinterpret_cast<const float*>(
      emulator::of_block(static_cast<unsigned>(rank), reinterpret_cast<const std::byte*>(mine)));
}

template <class T>
inline T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::shared_area());
}

}  // namespace weft::cuda
