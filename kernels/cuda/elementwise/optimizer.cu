// Gradient norm and AdamW; see optimizer.h.
#include <type_traits>

#include "kernels/cuda/elementwise/optimizer.cuh"

namespace weft::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) sum_squares_kernel(const SumSquaresOf of) {
  __shared__ double shared[kWarp];
  sum_squares_block(of, static_cast<int>(blockIdx.x), shared);
}

__global__ void __launch_bounds__(kThreads) finish_sum_squares_kernel(const SumSquaresOf of) {
  __shared__ double shared[kWarp];
  finish_sum_squares(of, shared);
}

__global__ void __launch_bounds__(kThreads)
    clip_factor_kernel(const float* partials, std::int64_t count, float max_norm, float* norm_and_factor) {
  __shared__ double shared[kWarp];
  double total = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) total += static_cast<double>(partials[i]);
  total = block_sum(total, shared);
  if (threadIdx.x != 0) return;
  const auto norm = static_cast<float>(sqrt(total));
  const float ratio = max_norm / (norm + 1e-6F);
  norm_and_factor[0] = norm;
  norm_and_factor[1] = max_norm <= 0.0F || ratio > 1.0F ? 1.0F : ratio;  // a NaN norm gives a NaN factor
}

template <class T>
__global__ void __launch_bounds__(kThreads) adamw_kernel(const AdamWOf<T> of) {
  adamw_block(of, blockIdx.x);
}

}  // namespace

void sum_squares(const Launch& launch, const Matrix& x, const Matrix& partial, const std::int64_t* replica) {
  const SumSquaresOf of = sum_squares_of(x, partial, replica, reinterpret_cast<double*>(launch.scratch));
  if (of.blocks > 0) {
    start("sum_squares", launch, sum_squares_kernel, static_cast<unsigned>(of.blocks), kThreads, 0, of);
  }
  start("finish_sum_squares", launch, finish_sum_squares_kernel, 1, kThreads, 0, of);
}

std::int64_t sum_squares_scratch_bytes(const Matrix& x) {
  return sum_blocks(cpu::count(x)) * static_cast<std::int64_t>(sizeof(double));
}

void clip_factor(const Launch& launch, const Matrix& partials, float max_norm, const Matrix& norm_and_factor) {
  start("clip_factor", launch, clip_factor_kernel, 1, kThreads, 0, partials.f32(), cpu::count(partials), max_norm,
        norm_and_factor.f32());
}

void adamw(const Launch& launch, const AdamWSettings& settings, const AdamWStep& step, const Matrix& param,
           const Matrix& grad, const Matrix& m, const Matrix& v, const Matrix* master) {
  with_float_type(param.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const AdamWOf<T> of = adamw_of<T>(settings, step, param, grad, m, v, master);
    if (of.count > 0) start("adamw", launch, adamw_kernel<T>, blocks_for(of.count, kThreads), kThreads, 0, of);
  });
}

}  // namespace weft::cuda
