// Softmax cross-entropy; see cross_entropy.h. A block takes a row. Between the sum and the gradient it keeps the row in
// shared memory if it fits; otherwise it reads the row again, mostly from the L2 cache.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/items.cuh"
#include "kernels/cuda/loss/cross_entropy.h"
#include "kernels/cuda/loss/exponential_sum.cuh"
#include "kernels/cuda/loss/softmax_gradient.cuh"

namespace weft::cuda {
namespace {

constexpr int kMostThreads = 1024, kSumThreads = 1024;
constexpr std::int64_t kStatic = 1024;           // of a block's shared memory, at the most
constexpr std::int64_t kShareable = 110 * 1024;  // two such rows fit into an H100's shared memory at once

template <class T, int kWidth, bool kStaged>
__global__ void __launch_bounds__(kMostThreads)
    cross_entropy_kernel(Stream<T> logits, std::int64_t cols, std::int64_t vocab, const std::int32_t* targets,
                         float* losses, const float* grad_scale, Fault* fault) {
  __shared__ float shared[kWarp];
  auto* stage = dynamic_shared<Raw<T, kWidth>>();
  const std::int64_t row = blockIdx.x, target = targets[row];
  T* x = logits.at(row, 0);
  if (target >= vocab) {
    if (threadIdx.x == 0) report(fault, Fault::target_outside_vocabulary);
    return;
  }
  if (target < 0) {
    if (threadIdx.x == 0) losses[row] = 0.0F;
    if (grad_scale == nullptr) return;
    write_zeros<T, kWidth>(x, cols);
    return;
  }
  const float picked = to_float(x[target]);
  const ExponentialSum sum = exponential_sum<T, kWidth, kStaged>(x, vocab, stage, shared);
  const float reference = reference_of(sum.top);
  if (threadIdx.x == 0) {
    const double log_sum = static_cast<double>(logf(sum.total)) + static_cast<double>(reference);
    losses[row] = static_cast<float>(log_sum - static_cast<double>(picked));
  }
  if (grad_scale == nullptr) return;
  const float scale = *grad_scale, factor = scale / sum.total;
  // p − 1 is computed in fp32, before it is rounded to T.
  const float at_target = (exponential(picked, reference) / sum.total - 1.0F) * scale;
  write_softmax_gradient<T, kWidth, kStaged>(x, stage, cols, vocab, {reference, factor, target, at_target});
}

__global__ void __launch_bounds__(kSumThreads)
    loss_sum_kernel(const float* losses, const std::int32_t* targets, std::int64_t rows, float* sums, bool accumulate,
                    const std::int64_t* replica) {
  __shared__ double shared[kWarp];
  const bool owner = replica == nullptr || *replica == 0;
  double total = 0.0, counted = 0.0;
  for (std::int64_t row = threadIdx.x; owner && row < rows; row += kSumThreads) {
    total += static_cast<double>(losses[row]);
    counted += targets[row] >= 0 ? 1.0 : 0.0;
  }
  total = block_sum(total, shared);
  counted = block_sum(counted, shared);
  if (threadIdx.x == 0) {
    sums[0] = static_cast<float>(total + static_cast<double>(accumulate ? sums[0] : 0.0F));
    sums[1] = static_cast<float>(counted + static_cast<double>(accumulate ? sums[1] : 0.0F));
  }
}

}  // namespace

void cross_entropy(const Launch& launch, std::int64_t vocab, const Matrix& logits, const Matrix& targets,
                   const Matrix& losses, const Matrix* grad_scale) {
  if (logits.rows == 0) return;
  with_pieces(logits.dtype, vectorizable(logits), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const std::int64_t pieces = (vocab + kWidth - 1) / kWidth;
    const auto bytes = pieces * static_cast<std::int64_t>(sizeof(Raw<T, kWidth>));
    const int threads = row_threads(pieces, bytes > kShareable ? kMostThreads : kMostThreads / 2);
    const bool staged = grad_scale != nullptr && bytes <= launch.shared_bytes - kStatic;
    const auto kernel = staged ? cross_entropy_kernel<T, kWidth, true> : cross_entropy_kernel<T, kWidth, false>;
    if (staged && launch.part != LaunchPart::kernels) {
      check(
          cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
          "cudaFuncSetAttribute");
    }
    start("cross_entropy", launch, kernel, static_cast<unsigned>(logits.rows), threads,
          staged ? static_cast<std::size_t>(bytes) : 0, stream_of<T>(logits), logits.cols, vocab, targets.i32(),
          losses.f32(), grad_scale != nullptr ? grad_scale->f32() : nullptr, launch.fault);
  });
}

void loss_sum(const Launch& launch, const Matrix& losses, const Matrix& targets, const Matrix& sums, bool accumulate,
              const std::int64_t* replica) {
  start("loss_sum", launch, loss_sum_kernel, 1, kSumThreads, 0, losses.f32(), targets.i32(), losses.rows * losses.cols,
        sums.f32(), accumulate, replica);
}

}  // namespace weft::cuda
