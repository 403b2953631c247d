// The launch arguments of all our CUDA kernels: a stream, scratch memory, and an address for reporting faults. The
// owner of device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cpu/matrix.h"

namespace weft::cuda {

/// An argument in device memory; the same shape and meaning as on the CPU.
using cpu::Matrix;

/// Kernels can't throw: a kernel writes a Fault, which whoever waits for the step reads.
enum class Fault : std::uint32_t {
  none = 0,
  token_outside_table,
  position_outside_table,
  target_outside_vocabulary,
  rows_outside_buffer
};

/// What a call of a kernel's function does: sets the attributes of its kernels and launches them, or one of the two.
/// Attributes stay for the device that is current; to set them takes about as long as a launch.
enum class LaunchPart : std::uint8_t { both, attributes, kernels };

/// Where a kernel is enqueued. `scratch` is device memory for this stream alone, with at least as many bytes as the
/// kernel's function …_scratch_bytes returns; a kernel with …_scratch_bytes that a library tells takes all
/// `scratch_bytes`. `fault` is device memory. `shared_bytes`: the most shared memory that a block can have.
struct Launch {
  cudaStream_t stream = nullptr;
  std::byte* scratch = nullptr;
  Fault* fault = nullptr;
  std::int64_t scratch_bytes = 0;
  int shared_bytes = 48 << 10;
  LaunchPart part = LaunchPart::both;
  bool early = false;           // kernels that start_early() launches may begin before the kernel before them has ended
  bool clustered_loss = false;  // a cluster of blocks shares a row of cross_entropy(), if the device has clusters
  bool masked_mma = false;      // attention with a window or within documents may use tensor cores
  bool grouped_mma = false;     // grouped products in bf16 use tensor cores
};

/// Throws RuntimeFault that names `what` unless `status` is success.
void check(cudaError_t status, const char* what);

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
/// Device memory with one owner.
using DeviceBuffer = std::unique_ptr<std::byte[], FreeDeviceMemory>;
/// On the current device, aligned, not initialised. Throws RuntimeFault.
DeviceBuffer allocate(std::size_t bytes);
/// The same with these bytes, which are on their way when it returns.
DeviceBuffer on_device(std::span<const std::byte> bytes);

}  // namespace weft::cuda
