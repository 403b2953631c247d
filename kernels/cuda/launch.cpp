#include "kernels/cuda/launch.h"

#include <fmt/format.h>

#include "base/error.h"

namespace weft::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw RuntimeFault(fmt::format("CUDA: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}

DeviceBuffer allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return DeviceBuffer(static_cast<std::byte*>(memory));
}

DeviceBuffer on_device(std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  DeviceBuffer memory = allocate(bytes.size());
  check(cudaMemcpy(memory.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  return memory;
}

}  // namespace weft::cuda
