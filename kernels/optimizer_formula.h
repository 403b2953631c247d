// The AdamW update of one element (Loshchilov and Hutter 2019, arXiv:1711.05101), for kernels without their own vector
// formula.
#pragma once

#include <cmath>

#include "kernels/host_device.h"

namespace weft::kernels {

/// correct1, correct2: 1/(1−β1^t), 1/(1−β2^t); factor: the clip factor of gradients.
struct AdamWNumbers {
  float beta1, beta2, eps, weight_decay, lr, correct1, correct2, factor;
};

struct AdamWElement {
  float weight, m, v;
};

WEFT_HOST_DEVICE inline AdamWElement adamw_update(const AdamWNumbers& s, const AdamWElement& before, float grad) {
  const float gradient = grad * s.factor;
  const float m = s.beta1 * before.m + (1.0F - s.beta1) * gradient;
  const float v = s.beta2 * before.v + (1.0F - s.beta2) * gradient * gradient;
  const float direction = m * s.correct1 / (std::sqrt(v * s.correct2) + s.eps);
  return {before.weight - s.lr * (direction + s.weight_decay * before.weight), m, v};
}

}  // namespace weft::kernels
