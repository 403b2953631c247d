// Many tensors in one launch; see optimizer_batch.h.
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "kernels/cuda/elementwise/optimizer.cuh"
#include "kernels/cuda/elementwise/optimizer_batch.h"

namespace weft::cuda {
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
  with_float_type(impl_->dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
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
  with_float_type(impl_->dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    start("adamw_batch", launch, adamw_batch_kernel<T>, impl_->table.size(), kThreads, 0,
          as<AdamWOf<T>>(impl_->tensors), as<BlockOf>(impl_->blocks));
  });
}

}  // namespace weft::cuda
