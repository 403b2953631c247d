// Cross-entropy over a vocabulary divided into parts; see vocab_parallel.h. A block takes a row.
#include <stdexcept>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/items.cuh"
#include "kernels/cuda/loss/exponential_sum.cuh"
#include "kernels/cuda/loss/softmax_gradient.cuh"
#include "kernels/cuda/loss/vocab_parallel.h"

namespace weft::cuda {
namespace {

constexpr int kMostThreads = 512;

// The columns of a part that are tokens: columns [0, tokens) are the tokens from `first` on.
struct Columns {
  std::int64_t first, tokens;

  __device__ Columns(const VocabPart& part, std::int64_t cols) : first(*part.coordinate * cols), tokens(0) {
    const std::int64_t left = part.vocab - first;
    tokens = left < 0 ? 0 : left < cols ? left : cols;
  }
  __device__ bool has(std::int64_t token) const { return token >= first && token < first + tokens; }
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kMostThreads)
    vocab_statistics_kernel(VocabPart part, Stream<const T> logits, std::int64_t cols, const std::int32_t* targets,
                            float* statistics, Fault* fault) {
  __shared__ float shared[kWarp];
  const std::int64_t row = blockIdx.x, target = targets[row];
  if (target >= part.vocab) {
    if (threadIdx.x == 0) report(fault, Fault::target_outside_vocabulary);
    return;
  }
  const Columns columns(part, cols);
  const T* x = logits.at(row, 0);
  // If all logits are −∞, the sum is 0. The sum also shows a NaN, which the maximum ignores.
  const ExponentialSum sum = exponential_sum<T, kWidth, false>(x, columns.tokens, nullptr, shared);
  if (threadIdx.x == 0) {
    float* out = statistics + row * 3;
    out[0] = sum.top;
    out[1] = sum.total;
    out[2] = columns.has(target) ? to_float(x[target - columns.first]) : -INFINITY;
  }
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kMostThreads)
    vocab_cross_entropy_kernel(VocabPart part, std::int64_t parts, Stream<T> logits, std::int64_t rows,
                               std::int64_t cols, const std::int32_t* targets, const float* statistics, float* losses,
                               const float* grad_scale, Fault* fault) {
  const std::int64_t row = blockIdx.x, target = targets[row];
  if (target >= part.vocab) {
    if (threadIdx.x == 0) report(fault, Fault::target_outside_vocabulary);
    return;
  }
  T* x = logits.at(row, 0);
  if (target < 0) {
    if (threadIdx.x == 0) losses[row] = 0.0F;
    if (grad_scale == nullptr) return;
    write_zeros<T, kWidth>(x, cols);
    return;
  }
  // Every thread combines the parts in their order, so that all ranks get the same bits.
  float top = -INFINITY, total = 0.0F;
  for (std::int64_t p = 0; p < parts; ++p) top = fmaxf(top, statistics[(p * rows + row) * 3]);
  for (std::int64_t p = 0; p < parts; ++p) {
    const float* of_part = statistics + (p * rows + row) * 3;
    total = fmaf(of_part[1], expf(of_part[0] - top), total);
  }
  const float picked = statistics[(target / cols * rows + row) * 3 + 2];
  if (threadIdx.x == 0) losses[row] = logf(total) - (picked - top);
  if (grad_scale == nullptr) return;
  const Columns columns(part, cols);
  const float scale = *grad_scale, factor = scale / total;
  // p − 1 is computed in fp32, before it is rounded to T.
  const float at_target = (expf(picked - top) / total - 1.0F) * scale;
  const std::int64_t target_col = columns.has(target) ? target - columns.first : -1;
  write_softmax_gradient<T, kWidth, false>(x, nullptr, cols, columns.tokens, {top, factor, target_col, at_target});
}

}  // namespace

void vocab_statistics(const Launch& launch, const VocabPart& part, const Matrix& logits, const Matrix& targets,
                      const Matrix& statistics) {
  if (logits.rows == 0 || logits.cols == 0) return;
  with_pieces(logits.dtype, vectorizable(logits), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const int threads = row_threads(logits.cols / kWidth, kMostThreads);
    start("vocab_statistics", launch, vocab_statistics_kernel<T, kWidth>, static_cast<unsigned>(logits.rows), threads,
          0, part, stream_of<const T>(logits), logits.cols, targets.i32(), statistics.f32(), launch.fault);
  });
}

void vocab_cross_entropy(const Launch& launch, const VocabPart& part, std::int64_t parts, const Matrix& logits,
                         const Matrix& targets, const Matrix& statistics, const Matrix& losses,
                         const Matrix* grad_scale) {
  if (part.vocab > parts * logits.cols) throw std::logic_error("there are too few parts for the vocabulary");
  if (logits.rows == 0 || logits.cols == 0) return;
  with_pieces(logits.dtype, vectorizable(logits), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const int threads = grad_scale != nullptr ? row_threads(logits.cols / kWidth, kMostThreads) : kWarp;
    start("vocab_cross_entropy", launch, vocab_cross_entropy_kernel<T, kWidth>, static_cast<unsigned>(logits.rows),
          threads, 0, part, parts, stream_of<T>(logits), logits.rows, logits.cols, targets.i32(), statistics.f32(),
          losses.f32(), grad_scale != nullptr ? grad_scale->f32() : nullptr, launch.fault);
  });
}

}  // namespace weft::cuda
