// Gradient clipping by global norm and AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101).
#pragma once

#include <cstdint>

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

}  // namespace weft::cuda
