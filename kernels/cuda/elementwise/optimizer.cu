// Gradient norm and AdamW, of one tensor and of many in one launch; see elementwise.h. Kernels of both kinds share the
// work of a block.
#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/chunks.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/items.cuh"
#include "kernels/formulas.h"

namespace weft::cuda {
namespace {

// Number of fp32 elements in a 16-byte access.
constexpr int kWidth = 4;
constexpr int kThreads = 256;

// The number of partial sums of x. It depends only on x's size; at most eight blocks for each multiprocessor of an
// H100.
std::int64_t sum_blocks(std::int64_t n) {
  return std::min<std::int64_t>(1056, blocks_for(n, kThreads * kWidth * 4));
}

// Inputs and outputs of one tensor's sum of squares.
struct SumSquaresOf {
  Stream<const float> x;
  Items items;
  const std::int64_t* replica;  // null, or x counts only if its value is 0
  double* sums;                 // one for each of `blocks`
  float* partial;
  int blocks;
};

// Block `block` of the tensor.
__device__ void sum_squares_block(const SumSquaresOf& of, int block, double* shared) {
  const Items& items = of.items;
  if (of.replica != nullptr && *of.replica != 0) return;
  const std::int64_t first = static_cast<std::int64_t>(block) * kThreads + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(of.blocks) * kThreads;
  double total = 0.0;
  const std::int64_t vectors = items.rows * items.vectors;
#pragma unroll 4
  for (std::int64_t i = first; i < vectors; i += step) {
    const Place at = place_of(i, items.vectors);
    float v[kWidth];
    load(of.x.at(at.row, at.piece * kWidth), v);
    total += static_cast<double>((v[0] * v[0] + v[1] * v[1]) + (v[2] * v[2] + v[3] * v[3]));
  }
  // The elements of each row that vectors don't cover: all of them if there are no vectors.
  const std::int64_t singles = items.per_row - items.vectors, begin = items.vectors * kWidth;
#pragma unroll 4
  for (std::int64_t i = first; i < items.rows * singles; i += step) {
    const Place at = place_of(i, singles);
    const double value = *of.x.at(at.row, begin + at.piece);
    total += value * value;
  }
  total = block_sum(total, shared);
  if (threadIdx.x == 0) of.sums[block] = total;
}

// One block, after all of sum_squares_block().
__device__ void finish_sum_squares(const SumSquaresOf& of, double* shared) {
  double total = 0.0;
  if (of.replica == nullptr || *of.replica == 0) {
    for (int i = threadIdx.x; i < of.blocks; i += kThreads) total += of.sums[i];
  }
  total = block_sum(total, shared);
  if (threadIdx.x == 0) *of.partial = static_cast<float>(total);
}

// Inputs and outputs of one tensor's update.
template <class T>
struct AdamWOf {
  Stream<T> param;
  Stream<const float> grad;
  Stream<float> m, v, master;  // master may be null
  Items items;
  std::int64_t count;
  AdamWSettings settings;
  const float *scalars, *norm_and_factor;  // the second may be null: nothing is clipped
};

// Block `block` of the tensor, one item for each thread.
template <class T>
__device__ void adamw_block(const AdamWOf<T>& t, std::int64_t block) {
  const std::int64_t item = block * kThreads + threadIdx.x;
  if (item >= t.count) return;
  const Items& items = t.items;
  const AdamWSettings& settings = t.settings;
  const float *const scalars = t.scalars, *const norm_and_factor = t.norm_and_factor;
  const float factor = norm_and_factor != nullptr ? norm_and_factor[1] : 1.0F;
  const kernels::AdamWNumbers numbers{settings.beta1, settings.beta2, settings.eps, settings.weight_decay,
                                      scalars[0],     scalars[1],     scalars[2],   factor};
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

// The arguments of the functions in elementwise.h, in the form that kernels take. `sums`: scratch for the tensor's
// blocks.
SumSquaresOf sum_squares_of(const Matrix& x, const Matrix& partial, const std::int64_t* replica, double* sums) {
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
          step.norm_and_factor != nullptr ? step.norm_and_factor->f32() : nullptr};
}

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
  with_float_type(param.dtype, [&]<class T>(T*) {
    const AdamWOf<T> of = adamw_of<T>(settings, step, param, grad, m, v, master);
    if (of.count > 0) start("adamw", launch, adamw_kernel<T>, blocks_for(of.count, kThreads), kThreads, 0, of);
  });
}

namespace {

// The tensor, and the block of it, for a block of the launch.
struct BlockOf {
  std::uint32_t tensor, block;
};

template <class T>
T* as(const DeviceBuffer& buffer) {
  return reinterpret_cast<T*>(buffer.get());
}

// All blocks of all tensors, one tensor after the other.
class BlockTable {
 public:
  void add(std::int64_t blocks) {
    for (std::int64_t b = 0; b < blocks; ++b) blocks_.push_back({tensors_, static_cast<std::uint32_t>(b)});
    ++tensors_;
  }
  unsigned size() const { return static_cast<unsigned>(blocks_.size()); }
  unsigned tensors() const { return tensors_; }
  DeviceBuffer copy() const { return on_device(std::as_bytes(std::span(blocks_))); }

 private:
  std::vector<BlockOf> blocks_;
  std::uint32_t tensors_ = 0;
};

__global__ void __launch_bounds__(kThreads)
    sum_squares_batch_kernel(const SumSquaresOf* tensors, const BlockOf* blocks) {
  __shared__ double shared[kWarp];
  const BlockOf at = blocks[blockIdx.x];
  sum_squares_block(tensors[at.tensor], static_cast<int>(at.block), shared);
}

__global__ void __launch_bounds__(kThreads) finish_sum_squares_batch_kernel(const SumSquaresOf* tensors) {
  __shared__ double shared[kWarp];
  finish_sum_squares(tensors[blockIdx.x], shared);
}

template <class T>
__global__ void __launch_bounds__(kThreads) adamw_batch_kernel(const AdamWOf<T>* tensors, const BlockOf* blocks) {
  const BlockOf at = blocks[blockIdx.x];
  adamw_block(tensors[at.tensor], at.block);
}

}  // namespace

struct SumSquaresBatch::Impl {
  BlockTable table;
  DeviceBuffer tensors, blocks, sums;
};

SumSquaresBatch::SumSquaresBatch(std::span<const SumSquaresArguments> tensors) : impl_(std::make_unique<Impl>()) {
  std::int64_t all = 0;
  for (const SumSquaresArguments& of : tensors) all += sum_blocks(cpu::count(of.x));
  impl_->sums = allocate(static_cast<std::size_t>(all + 1) * sizeof(double));
  double* sums = as<double>(impl_->sums);
  std::vector<SumSquaresOf> list;
  for (const SumSquaresArguments& of : tensors) {
    list.push_back(sum_squares_of(of.x, of.partial, of.replica, sums));
    impl_->table.add(list.back().blocks);
    sums += list.back().blocks;
  }
  impl_->tensors = on_device(std::as_bytes(std::span(list)));
  impl_->blocks = impl_->table.copy();
}

SumSquaresBatch::~SumSquaresBatch() = default;

void SumSquaresBatch::run(const Launch& launch) const {
  const auto* const tensors = as<SumSquaresOf>(impl_->tensors);
  if (impl_->table.size() > 0) {
    start("sum_squares_batch", launch, sum_squares_batch_kernel, impl_->table.size(), kThreads, 0, tensors,
          as<BlockOf>(impl_->blocks));
  }
  start("finish_sum_squares_batch", launch, finish_sum_squares_batch_kernel, impl_->table.tensors(), kThreads, 0,
        tensors);
}

struct AdamWBatch::Impl {
  DType dtype = DType::f32;
  BlockTable table;
  DeviceBuffer tensors, blocks;
};

AdamWBatch::AdamWBatch(std::span<const AdamWArguments> tensors) : impl_(std::make_unique<Impl>()) {
  impl_->dtype = tensors.front().param.dtype;
  with_float_type(impl_->dtype, [&]<class T>(T*) {
    std::vector<AdamWOf<T>> list;
    for (const AdamWArguments& of : tensors) {
      if (of.param.dtype != impl_->dtype) throw std::logic_error("the parameters of a batch differ in dtype");
      list.push_back(adamw_of<T>(of.settings, of.step, of.param, of.grad, of.m, of.v, of.master));
      impl_->table.add(blocks_for(list.back().count, kThreads));
    }
    impl_->tensors = on_device(std::as_bytes(std::span(list)));
  });
  impl_->blocks = impl_->table.copy();
}

AdamWBatch::~AdamWBatch() = default;

void AdamWBatch::run(const Launch& launch) const {
  if (impl_->table.size() == 0) return;
  with_float_type(impl_->dtype, [&]<class T>(T*) {
    start("adamw_batch", launch, adamw_batch_kernel<T>, impl_->table.size(), kThreads, 0,
          as<AdamWOf<T>>(impl_->tensors), as<BlockOf>(impl_->blocks));
  });
}

}  // namespace weft::cuda
