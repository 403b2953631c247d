// Gradient clipping by global norm and AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), of one tensor, or of many
// in a single launch, since a launch for each small tensor would take longer to start than to run. The bits are the
// same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cpu/elementwise/optimizer.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

using cpu::AdamWSettings;
using cpu::AdamWStep;

/// partial[0] = Σ x², added in double; 0 on a rank that doesn't own x: if `replica` isn't null and *replica isn't 0. x,
/// partial f32; `replica` in device memory.
void sum_squares(const Launch& launch, const Matrix& x, const Matrix& partial, const std::int64_t* replica);
std::int64_t sum_squares_scratch_bytes(const Matrix& x);

/// norm_and_factor = {√Σ partials, min(1, max_norm/(norm + 1e-6))}; the factor is 1 if max_norm ≤ 0. All f32.
void clip_factor(const Launch& launch, const Matrix& partials, float max_norm, const Matrix& norm_and_factor);

/// g = grad·factor; m = β1·m + (1−β1)·g; v = β2·v + (1−β2)·g²; p −= lr·(m̂/(√v̂ + eps) + weight_decay·p).
/// param has a float dtype; grad, m, v are f32 with equal element counts. With `master` (f32, else null) the update is
/// done on the master weights, and param gets their rounded values. The kernel reads the step's values from device
/// memory.
void adamw(const Launch& launch, const AdamWSettings& settings, const AdamWStep& step, const Matrix& param,
           const Matrix& grad, const Matrix& m, const Matrix& v, const Matrix* master);

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
