// Gradient clipping by global norm and AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101).
#pragma once

#include <cstdint>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// partial[0] = Σ x², squared and added in double; 0 on a rank that isn't the `owner` of x, because another rank counts
/// x. x, partial f32.
void sum_squares(Workers& workers, const Matrix& x, const Matrix& partial, bool owner = true);
Scratch sum_squares_scratch(const Matrix& x);

/// norm_and_factor = {√Σ partials, min(1, max_norm/(norm + 1e-6))}; the factor is 1 if max_norm ≤ 0. All f32.
void clip_factor(Workers& workers, const Matrix& partials, float max_norm, const Matrix& norm_and_factor);

struct AdamWSettings {
  float beta1, beta2, eps, weight_decay;
};

/// The values of a step: `scalars` f32 {lr, 1/(1−β1^t), 1/(1−β2^t), …}, `norm_and_factor` f32 {…, clip factor}.
struct AdamWStep {
  Matrix scalars, norm_and_factor;
};

/// g = grad·factor; m = β1·m + (1−β1)·g; v = β2·v + (1−β2)·g²; p −= lr·(m̂/(√v̂ + eps) + weight_decay·p).
/// param has a float dtype; grad, m, v are f32 with equal element counts. With `master` (f32, else null) the update is
/// done on the master weights, and param gets their rounded values.
void adamw(Workers& workers, const AdamWSettings& settings, const AdamWStep& step, const Matrix& param,
           const Matrix& grad, const Matrix& m, const Matrix& v, const Matrix* master);

}  // namespace weft::cpu
