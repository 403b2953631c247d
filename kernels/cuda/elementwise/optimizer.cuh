// The work of one block of the optimizer's kernels, for kernels over one tensor and over many.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/chunks.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/optimizer.h"
#include "kernels/cuda/items.cuh"
#include "kernels/optimizer_formula.h"

namespace weft::cuda {

// Number of fp32 elements in a 16-byte access.
inline constexpr int kWidth = 4;
inline constexpr int kThreads = 256;

// The number of partial sums of x. It depends only on x's size; at most eight blocks for each multiprocessor of an
// H100.
inline std::int64_t sum_blocks(std::int64_t n) {
  return std::min<std::int64_t>(1056, blocks_for(n, kThreads * kWidth * 4));
}

/// Inputs and outputs of one tensor's sum of squares.
struct SumSquaresOf {
  Stream<const float> x;
  Items items;
  const std::int64_t* replica;  // null, or x counts only if its value is 0
  double* sums;                 // one for each of `blocks`
  float* partial;
  int blocks;
};

/// Block `block` of the tensor.
__device__ inline void sum_squares_block(const SumSquaresOf& of, int block, double* shared) {
  const Items& items = of.items;
  if (of.replica != nullptr && *of.replica != 0) return;
  const std::int64_t first = static_cast<std::int64_t>(block) * kThreads + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(of.blocks) * kThreads;
  double total = 0.0;
  const std::int64_t vectors = items.rows * items.vectors;
#pragma unroll 4
  for (std::int64_t i = first; i < vectors; i += step) {
    const std::int64_t row = items.rows > 1 ? i / items.vectors : 0;
    float v[kWidth];
    load(of.x.at(row, (i - row * items.vectors) * kWidth), v);
    total += static_cast<double>((v[0] * v[0] + v[1] * v[1]) + (v[2] * v[2] + v[3] * v[3]));
  }
  // The elements of each row that vectors don't cover: all of them if there are no vectors.
  const std::int64_t singles = items.per_row - items.vectors, begin = items.vectors * kWidth;
#pragma unroll 4
  for (std::int64_t i = first; i < items.rows * singles; i += step) {
    const std::int64_t row = items.rows > 1 ? i / singles : 0;
    const double value = *of.x.at(row, begin + (i - row * singles));
    total += value * value;
  }
  total = block_sum(total, shared);
  if (threadIdx.x == 0) of.sums[block] = total;
}

/// One block, after all of sum_squares_block().
__device__ inline void finish_sum_squares(const SumSquaresOf& of, double* shared) {
  double total = 0.0;
  if (of.replica == nullptr || *of.replica == 0) {
    for (int i = threadIdx.x; i < of.blocks; i += kThreads) total += of.sums[i];
  }
  total = block_sum(total, shared);
  if (threadIdx.x == 0) *of.partial = static_cast<float>(total);
}

/// Inputs and outputs of one tensor's update.
template <class T>
struct AdamWOf {
  Stream<T> param;
  Stream<const float> grad;
  Stream<float> m, v, master;  // master may be null
  Items items;
  std::int64_t count;
  AdamWSettings settings;
  const float *scalars, *norm_and_factor;
};

/// Block `block` of the tensor, one item for each thread.
template <class T>
__device__ inline void adamw_block(const AdamWOf<T>& t, std::int64_t block) {
  const std::int64_t item = block * kThreads + threadIdx.x;
  if (item >= t.count) return;
  const Items& items = t.items;
  const AdamWSettings& settings = t.settings;
  const float *const scalars = t.scalars, *const norm_and_factor = t.norm_and_factor;
  const kernels::AdamWNumbers numbers{settings.beta1, settings.beta2, settings.eps, settings.weight_decay,
                                      scalars[0],     scalars[1],     scalars[2],   norm_and_factor[1]};
  visit<kWidth>(items, item, [&](auto width, std::int64_t row, std::int64_t column) {
    constexpr int kHere = decltype(width)::value;
    T* const param = t.param.at(row, column);
    float *const to_m = t.m.at(row, column), *const to_v = t.v.at(row, column);
    float* const master = t.master.data != nullptr ? t.master.at(row, column) : nullptr;
    float weight[kHere], grad[kHere], m[kHere], v[kHere];
    load(t.grad.at(row, column), grad);
    load(to_m, m);
    load(to_v, v);
    if (master != nullptr) {
      load(master, weight);
    } else {
      load(param, weight);
    }
#pragma unroll
    for (int i = 0; i < kHere; ++i) {
      const kernels::AdamWElement after = kernels::adamw_update(numbers, {weight[i], m[i], v[i]}, grad[i]);
      weight[i] = after.weight, m[i] = after.m, v[i] = after.v;
    }
    store(to_m, m);
    store(to_v, v);
    if (master != nullptr) store(master, weight);
    store(param, weight);
  });
}

/// The arguments of the functions in optimizer.h, in the form that kernels take. `sums`: scratch for the tensor's
/// blocks.
inline SumSquaresOf sum_squares_of(const Matrix& x, const Matrix& partial, const std::int64_t* replica, double* sums) {
  const Matrix view = cpu::common_shape(x)[0];
  return {stream_of<const float>(view),
          items_of(view.rows, view.cols, kWidth, loads_vectors(view, kWidth)),
          replica,
          sums,
          partial.f32(),
          static_cast<int>(sum_blocks(cpu::count(view)))};
}

template <class T>
AdamWOf<T> adamw_of(const AdamWSettings& settings, const AdamWStep& step, const Matrix& param, const Matrix& grad,
                    const Matrix& m, const Matrix& v, const Matrix* master) {
  const auto views = cpu::common_shape(param, grad, m, v, master != nullptr ? *master : m);
  bool wide = true;
  for (const Matrix& view : views) wide = wide && loads_vectors(view, kWidth);
  const Items items = items_of(views[0].rows, views[0].cols, kWidth, wide);
  return {stream_of<T>(views[0]),
          stream_of<const float>(views[1]),
          stream_of<float>(views[2]),
          stream_of<float>(views[3]),
          master != nullptr ? stream_of<float>(views[4]) : Stream<float>{},
          items,
          items.count(),
          settings,
          step.scalars.f32(),
          step.norm_and_factor.f32()};
}

}  // namespace weft::cuda
