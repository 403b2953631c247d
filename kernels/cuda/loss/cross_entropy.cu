// Softmax cross-entropy of whole rows, and of rows whose vocabulary is divided into parts; see cross_entropy.h. A block
// takes a row, which it reads once for Σ eˣ: each thread moves its reference when it finds larger numbers, then the
// block combines the threads' sums. Between the sum and the gradient a whole row stays in shared memory if it fits;
// otherwise it is read again, mostly from the L2 cache. A cluster of blocks does the same with as many threads, each
// block keeping its threads' part of the row, so that more rows are in work at once.
#include <cfloat>
#include <cstdint>
#include <stdexcept>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/items.cuh"
#include "kernels/cuda/loss/cross_entropy.h"

namespace weft::cuda {
namespace {

// The sum as total·e^reference_of(top), where `top` is the largest number, −inf if there is none.
struct ExponentialSum {
  float top, total;
};

// Finite even if all numbers are −inf, so that differences from it aren't NaN.
__device__ float reference_of(float top) {
  return fmaxf(top, -FLT_MAX);
}

// e^(x − reference). The difference is computed before anything is rounded, since logits may be thousands while their
// differences are small.
__device__ float exponential(float x, float reference) {
  return exp2f((x - reference) * 1.44269504F);
}

constexpr int kRowBatch = 4;  // pieces that a thread loads before it uses them

// The threads that work on a row: all of a block, or of a cluster of blocks.
struct RowBlock {
  __device__ static int number() { return static_cast<int>(threadIdx.x); }
  __device__ static int count() { return static_cast<int>(blockDim.x); }
  template <class Combine>
  __device__ static float combined(float x, float nothing, float* shared, int /*use*/, const Combine& combine) {
    return over_block(x, nothing, shared, combine);
  }
};
struct RowCluster {
  __device__ static int number() {
    return static_cast<int>(blockIdx.x) % kOfCluster * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  }
  __device__ static int count() { return kOfCluster * static_cast<int>(blockDim.x); }
  // In over_block()'s order, by numbers in shared memory of their own for each use.
  template <class Combine>
  __device__ static float combined(float x, float nothing, float* shared, int use, const Combine& combine) {
    x = over_lanes<kWarp>(x, combine);
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warps = static_cast<int>(blockDim.x) / kWarp;
    if (lane == 0) shared[use * kWarp + number() / kWarp] = x;
    cluster_barrier();
    x = lane < kOfCluster * warps ? of_block(lane / warps, shared + use * kWarp + lane) : nothing;
    return over_lanes<kWarp>(x, combine);
  }
};

// The sum over the first n elements of a row whose length is a whole number of pieces. All threads of the team must
// call, and all get the sum. With kStaged, a block keeps the pieces that its threads read, for
// write_softmax_gradient(). The order of additions depends only on n and the team's size.
template <class T, int kWidth, bool kStaged, class Team = RowBlock>
__device__ ExponentialSum exponential_sum(const T* x, std::int64_t n, Raw<T, kWidth>* stage, float* shared) {
  const std::int64_t pieces = (n + kWidth - 1) / kWidth, stride = Team::count();
  float top = -INFINITY, total = 0.0F;
  [[maybe_unused]] auto* kept = stage + threadIdx.x;
  for (std::int64_t first = Team::number(); first < pieces; first += kRowBatch * stride) {
    Raw<T, kWidth> raw[kRowBatch];
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const std::int64_t piece = first + u * stride;
      raw[u] = Raw<T, kWidth>{};
      if (piece < pieces) raw[u] = fetch<kWidth>(x + piece * kWidth);
    }
    float values[kRowBatch][kWidth], largest = top;
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const std::int64_t piece = first + u * stride;
      if constexpr (kStaged) {
        if (piece < pieces) *kept = raw[u];
        kept += blockDim.x;
      }
      unpack(raw[u], values[u]);
      if ((piece + 1) * kWidth > n) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[u][i] = piece * kWidth + i < n ? values[u][i] : -INFINITY;
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) largest = fmaxf(largest, values[u][i]);
    }
    const float reference = reference_of(largest);
    if (largest > top) total *= exponential(reference_of(top), reference);
    top = largest;
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum += exponential(values[u][i], reference);
      total += sum;
    }
  }
  const float whole = Team::combined(top, -INFINITY, shared, 0, Largest{});
  const float scaled = total * exponential(reference_of(top), reference_of(whole));
  return {whole, Team::combined(scaled, 0.0F, shared, 1, Sum{})};
}

// The number of threads that a row of `pieces` pieces keeps busy.
int row_threads(std::int64_t pieces, int most) {
  return pieces >= most ? most : static_cast<int>((pieces + kWarp - 1) / kWarp * kWarp);
}

// The gradient of a row of cross-entropy: exp(x − reference)·factor, except at_target in the target's column (−1: no
// column).
struct SoftmaxGradient {
  float reference, factor;
  std::int64_t target;
  float at_target;
};

// Overwrites the row's logits with the gradient. Reads the first `tokens` logits (from shared memory `stage`, as
// exponential_sum() left them, if kStaged) and writes zeros after them up to `cols`. All threads of the team must call.
template <class T, int kWidth, bool kStaged, class Team = RowBlock>
__device__ void write_softmax_gradient(T* x, const Raw<T, kWidth>* stage, std::int64_t cols, std::int64_t tokens,
                                       const SoftmaxGradient& of) {
  const std::int64_t pieces = cols / kWidth, stride = Team::count();
  [[maybe_unused]] const auto* kept = stage + threadIdx.x;
  for (std::int64_t first = Team::number(); first < pieces; first += kRowBatch * stride) {
    Raw<T, kWidth> raw[kRowBatch];
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const std::int64_t piece = first + u * stride;
      raw[u] = Raw<T, kWidth>{};
      if (piece * kWidth >= tokens) continue;
      if constexpr (kStaged) {
        raw[u] = kept[u * static_cast<int>(blockDim.x)];
      } else {
        raw[u] = fetch<kWidth>(x + piece * kWidth);
      }
    }
    if constexpr (kStaged) kept += kRowBatch * static_cast<int>(blockDim.x);
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const std::int64_t piece = first + u * stride, col = piece * kWidth;
      if (piece >= pieces) continue;
      float values[kWidth];
      unpack(raw[u], values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] = exponential(values[i], of.reference) * of.factor;
      if (of.target >= col && of.target < col + kWidth) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[i] = col + i == of.target ? of.at_target : values[i];
      }
      if (col + kWidth > tokens) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[i] = col + i < tokens ? values[i] : 0.0F;
      }
      store(x + col, values);
    }
  }
}

// Whether the row has a target. Without one its loss is 0 and so is its gradient, if `cols` of it are wanted.
template <class T, int kWidth, class Team = RowBlock>
__device__ bool has_target(std::int64_t target, std::int64_t vocab, float* loss, T* x, std::int64_t cols,
                           Fault* fault) {
  if (target >= vocab) {
    if (Team::number() == 0) report(fault, Fault::target_outside_vocabulary);
    return false;
  }
  if (target >= 0) return true;
  if (Team::number() == 0) *loss = 0.0F;
  const float zeros[kWidth] = {};
  const std::int64_t pieces = cols / kWidth, stride = Team::count();
  for (std::int64_t piece = Team::number(); piece < pieces; piece += stride) store(x + piece * kWidth, zeros);
  return false;
}

constexpr int kMostThreads = 1024, kSumThreads = 1024;
constexpr std::int64_t kStatic = 1024;           // of a block's shared memory, at the most
constexpr std::int64_t kShareable = 110 * 1024;  // two such rows fit into an H100's shared memory at once

// The loss of a row, and its gradient unless grad_scale is null.
template <class T, int kWidth, bool kStaged, class Team>
__device__ void cross_entropy_of_row(T* x, std::int64_t cols, std::int64_t vocab, std::int64_t target, float* loss,
                                     const float* grad_scale, Raw<T, kWidth>* stage, float* shared, Fault* fault) {
  if (!has_target<T, kWidth, Team>(target, vocab, loss, x, grad_scale != nullptr ? cols : 0, fault)) return;
  const float picked = to_float(x[target]);
  const ExponentialSum sum = exponential_sum<T, kWidth, kStaged, Team>(x, vocab, stage, shared);
  const float reference = reference_of(sum.top);
  if (Team::number() == 0) {
    const double log_sum = static_cast<double>(logf(sum.total)) + static_cast<double>(reference);
    *loss = static_cast<float>(log_sum - static_cast<double>(picked));
  }
  if (grad_scale == nullptr) return;
  const float scale = *grad_scale, factor = scale / sum.total;
  // p − 1 is computed in fp32, before it is rounded to T.
  const float at_target = (exponential(picked, reference) / sum.total - 1.0F) * scale;
  write_softmax_gradient<T, kWidth, kStaged, Team>(x, stage, cols, vocab, {reference, factor, target, at_target});
}

template <class T, int kWidth, bool kStaged>
__global__ void __launch_bounds__(kMostThreads)
    cross_entropy_kernel(Stream<T> logits, std::int64_t cols, std::int64_t vocab, const std::int32_t* targets,
                         float* losses, const float* grad_scale, Fault* fault) {
  __shared__ float shared[kWarp];
  const std::int64_t row = blockIdx.x;
  cross_entropy_of_row<T, kWidth, kStaged, RowBlock>(logits.at(row, 0), cols, vocab, targets[row], losses + row,
                                                     grad_scale, dynamic_shared<Raw<T, kWidth>>(), shared, fault);
}

constexpr int kClusterSums = 2 * kWarp;  // floats in shared memory before the pieces

template <class T, int kWidth>
__global__ void __launch_bounds__(kMostThreads / kOfCluster)
    clustered_cross_entropy_kernel(Stream<T> logits, std::int64_t cols, std::int64_t vocab, const std::int32_t* targets,
                                   float* losses, const float* grad_scale, Fault* fault) {
  auto* const shared = dynamic_shared<float>();
  auto* const stage = reinterpret_cast<Raw<T, kWidth>*>(shared + kClusterSums);
  const std::int64_t row = blockIdx.x / kOfCluster;
  cross_entropy_of_row<T, kWidth, true, RowCluster>(logits.at(row, 0), cols, vocab, targets[row], losses + row,
                                                    grad_scale, stage, shared, fault);
  cluster_barrier();  // the others read this block's shared memory
}

// Launches it, unless the row is too short for the threads or a block's part of it too long for the shared memory.
template <class T, int kWidth>
bool start_clustered(const Launch& launch, std::int64_t vocab, const Matrix& logits, const Matrix& targets,
                     const Matrix& losses, const Matrix& grad_scale, int threads) {
  const std::int64_t pieces = (vocab + kWidth - 1) / kWidth;
  const std::int64_t kept = blocks_for(pieces, threads) * static_cast<std::int64_t>(threads / kOfCluster);
  const std::int64_t bytes = kClusterSums * static_cast<std::int64_t>(sizeof(float)) +
                             kept * static_cast<std::int64_t>(sizeof(Raw<T, kWidth>));
  if (threads % (kOfCluster * kWarp) != 0 || bytes > launch.shared_bytes) return false;
  start_clusters("cross_entropy", launch, clustered_cross_entropy_kernel<T, kWidth>,
                 static_cast<unsigned>(logits.rows * kOfCluster), threads / kOfCluster, static_cast<std::size_t>(bytes),
                 stream_of<T>(logits), logits.cols, vocab, targets.i32(), losses.f32(), grad_scale.f32(), launch.fault);
  return true;
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
    if (launch.clustered_loss && grad_scale != nullptr &&
        start_clustered<T, kWidth>(launch, vocab, logits, targets, losses, *grad_scale, threads)) {
      return;
    }
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

namespace {

constexpr int kMostPartThreads = 512;

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
__global__ void __launch_bounds__(kMostPartThreads)
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
__global__ void __launch_bounds__(kMostPartThreads)
    vocab_cross_entropy_kernel(VocabPart part, std::int64_t parts, Stream<T> logits, std::int64_t rows,
                               std::int64_t cols, const std::int32_t* targets, const float* statistics, float* losses,
                               const float* grad_scale, Fault* fault) {
  const std::int64_t row = blockIdx.x, target = targets[row];
  T* x = logits.at(row, 0);
  if (!has_target<T, kWidth>(target, part.vocab, losses + row, x, grad_scale != nullptr ? cols : 0, fault)) return;
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
    const int threads = row_threads(logits.cols / kWidth, kMostPartThreads);
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
    const int threads = grad_scale != nullptr ? row_threads(logits.cols / kWidth, kMostPartThreads) : kWarp;
    start("vocab_cross_entropy", launch, vocab_cross_entropy_kernel<T, kWidth>, static_cast<unsigned>(logits.rows),
          threads, 0, part, parts, stream_of<T>(logits), logits.rows, logits.cols, targets.i32(), statistics.f32(),
          losses.f32(), grad_scale != nullptr ? grad_scale->f32() : nullptr, launch.fault);
  });
}

}  // namespace weft::cuda
