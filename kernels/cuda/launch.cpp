#include "kernels/cuda/launch.h"

#include <fmt/format.h>

#include "base/error.h"

namespace weft::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw RuntimeFault(fmt::format("CUDA: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace weft::cuda
