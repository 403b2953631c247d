// What every CUDA kernel of ours is given: a stream, scratch memory, and where to report what it can't throw.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gemm/matrix.h"

namespace weft::cuda {

/// An argument in device memory; the same shape and meaning as on the CPU.
using cpu::Matrix;

/// A kernel can't throw: it writes one of these, and whoever waits for the step reads it.
enum class Fault : std::uint32_t { none = 0, token_outside_table, position_outside_table, target_outside_vocabulary };

/// Where a kernel is enqueued. `scratch` is device memory of at least as many bytes as the kernel's function
/// …_scratch_bytes says, of this stream alone. `fault` is device memory.
struct Launch {
  cudaStream_t stream = nullptr;
  std::byte* scratch = nullptr;
  Fault* fault = nullptr;
};

/// Throws RuntimeFault naming `what` unless `status` is success.
void check(cudaError_t status, const char* what);

}  // namespace weft::cuda
