// The launch arguments of all our CUDA kernels: a stream, scratch memory, and an address for reporting faults.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matrix.h"

namespace weft::cuda {

/// An argument in device memory; the same shape and meaning as on the CPU.
using cpu::Matrix;

/// Kernels can't throw: a kernel writes a Fault, which whoever waits for the step reads.
enum class Fault : std::uint32_t { none = 0, token_outside_table, position_outside_table, target_outside_vocabulary };

/// Where a kernel is enqueued. `scratch` is device memory for this stream alone, with at least as many bytes as the
/// kernel's function …_scratch_bytes returns. `fault` is device memory.
struct Launch {
  cudaStream_t stream = nullptr;
  std::byte* scratch = nullptr;
  Fault* fault = nullptr;
};

/// Throws RuntimeFault that names `what` unless `status` is success.
void check(cudaError_t status, const char* what);

}  // namespace weft::cuda
