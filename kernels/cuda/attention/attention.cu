// Causal attention: checks the shape, chooses between the tensor-core and the fp32 kernels, and sums dout·out for the
// backward passes of both. See attention.h.
#include <limits>
#include <stdexcept>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_parts.cuh"
#include "kernels/cuda/vector_access.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// delta = rowsum(dout·out): one warp for each row of one head. Heads are adjacent in memory, so consecutive warps take
// consecutive heads.
template <class T>
__global__ void __launch_bounds__(kThreads)
    delta_kernel(AttentionProblem problem, HeadRows<const T> dout, HeadRows<const T> out, float* delta) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  const std::int64_t row = index / problem.heads;
  if (row >= static_cast<std::int64_t>(problem.batch) * problem.seq) return;
  const int head = static_cast<int>(index % problem.heads), lane = static_cast<int>(threadIdx.x % kWarp);
  const int sequence = static_cast<int>(row / problem.seq), query = static_cast<int>(row % problem.seq);
  const T* a = dout.at(problem, sequence, head, query);
  const T* b = out.at(problem, sequence, head, query);
  float sum = 0.0F;
  for (int i = lane; i < problem.head_dim; i += kWarp) sum += to_float(a[i]) * to_float(b[i]);
  sum = warp_sum(sum);
  if (lane == 0) delta[problem.statistics(sequence, head) + query] = sum;
}

// False if there is nothing to do.
bool any_work(const AttentionShape& shape) {
  if (shape.head_dim < 1 || shape.head_dim > kLargestHeadDim) {
    throw std::logic_error("attention on CUDA takes head dimensions from 1 to 256");
  }
  // Kernels count rows, and blocks of at least one row each, in 32 bits.
  if (shape.batch * shape.heads * shape.seq > std::numeric_limits<int>::max()) {
    throw std::logic_error("attention on CUDA takes fewer than 2^31 rows of heads");
  }
  return shape.batch * shape.heads * shape.seq > 0;
}

// Whether the tensor-core kernels can compute these; otherwise the fp32 kernels do.
bool suits_mma(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors) {
  const bool masked = shape.window > 0 || tensors.document_starts != nullptr;
  return tensors.q.dtype == DType::bf16 && (!masked || launch.masked_mma) &&
         (shape.head_dim == 64 || shape.head_dim == 128) && vectorizable(tensors.q) && vectorizable(tensors.k) &&
         vectorizable(tensors.v) && vectorizable(tensors.out);
}
bool suits_mma(const AttentionGradients& gradients) {
  return vectorizable(gradients.dout) && vectorizable(gradients.dq) && vectorizable(gradients.dk) &&
         vectorizable(gradients.dv);
}

}  // namespace

void attention_forward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors) {
  if (!any_work(shape)) return;
  if (suits_mma(launch, shape, tensors)) {
    mma_attention_forward(launch, shape, tensors);
  } else {
    tiled_attention_forward(launch, shape, tensors);
  }
}

void attention_backward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors,
                        const AttentionGradients& gradients) {
  if (!any_work(shape)) return;
  float* delta = reinterpret_cast<float*>(launch.scratch);
  with_float_type(tensors.q.dtype, [&]<class T>(T*) {
    start("attention delta", launch, delta_kernel<T>,
          blocks_for(shape.batch * shape.seq * shape.heads, kThreads / kWarp), kThreads, 0, AttentionProblem(shape),
          HeadRows<const T>(gradients.dout), HeadRows<const T>(tensors.out), delta);
  });
  if (suits_mma(launch, shape, tensors) && suits_mma(gradients)) {
    mma_attention_backward(launch, shape, tensors, gradients, delta);
  } else {
    tiled_attention_backward(launch, shape, tensors, gradients, delta);
  }
}

std::int64_t attention_backward_scratch_bytes(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.seq * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace weft::cuda
