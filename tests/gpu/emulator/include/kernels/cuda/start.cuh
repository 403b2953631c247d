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

template <class T>
inline T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::shared_area());
}

}  // namespace weft::cuda
