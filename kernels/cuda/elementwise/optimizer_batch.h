// The optimizer's kernels over many tensors at once: a single launch, since a launch for each small tensor would take
// longer to start than to run. The bits are those of the single kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/elementwise/optimizer.h"

namespace weft::cuda {

struct SumSquaresArguments {
  Matrix x, partial;
  const std::int64_t* replica;
};

/// sum_squares() of many tensors. The table of tensors is on the device, so that run() copies nothing.
class SumSquaresBatch {
 public:
  explicit SumSquaresBatch(std::span<const SumSquaresArguments> tensors);
  ~SumSquaresBatch();
  SumSquaresBatch(const SumSquaresBatch&) = delete;
  SumSquaresBatch& operator=(const SumSquaresBatch&) = delete;

  void run(const Launch& launch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct AdamWArguments {
  AdamWSettings settings;
  AdamWStep step;
  Matrix param, grad, m, v;
  const Matrix* master;
};

/// adamw() of many tensors. Throws std::logic_error unless all parameters have one dtype.
class AdamWBatch {
 public:
  explicit AdamWBatch(std::span<const AdamWArguments> tensors);
  ~AdamWBatch();
  AdamWBatch(const AdamWBatch&) = delete;
  AdamWBatch& operator=(const AdamWBatch&) = delete;

  void run(const Launch& launch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cuda
