// Formulas of one element, for kernels without vector formulas of their own: GELU (tanh approximation) and SiLU with
// their derivatives, in fp32 to a few ulp (kernels/cpu/elementwise/elementwise.cpp has the same formulas for vectors);
// the elements that dropout drops (Srivastava et al. 2014); and the AdamW update (Loshchilov and Hutter 2019,
// arXiv:1711.05101).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "kernels/host_device.h"

namespace weft::kernels {

/// 1/(1 + exponential). On a GPU it avoids the slow path of a correctly rounded division; 0 from 2¹²⁶ on.
WEFT_HOST_DEVICE inline float reciprocal_of_one_plus(float exponential) {
#ifdef __CUDA_ARCH__
  return __fdividef(1.0F, 1.0F + exponential);
#else
  return 1.0F / (1.0F + exponential);
#endif
}

/// 1/(1 + e⁻ˣ).
WEFT_HOST_DEVICE inline float logistic(float x) {
  return reciprocal_of_one_plus(expf(-x));
}

/// ½(1 + tanh u), u = √(2/π)(x + 0.044715x³), as 1/(1 + e⁻²ᵘ): one exponential, no cancellation.
WEFT_HOST_DEVICE inline float gelu_gate(float x) {
  constexpr float kCubic = 0.044715F;
  constexpr float kScale = -1.5957691216F * 1.44269504F;  // −2·√(2/π)·log₂e
  return reciprocal_of_one_plus(exp2f(x * (kScale + (kScale * kCubic) * (x * x))));
}

/// ½x(1 + tanh(√(2/π)(x + 0.044715x³))).
WEFT_HOST_DEVICE inline float gelu_tanh(float x) {
  return x * gelu_gate(x);
}

/// The derivative of gelu_tanh(). Beyond ±12 it equals 0 or 1 to fp32's last bit; clamping there keeps x³ from
/// overflowing into inf·0. NaN passes through.
WEFT_HOST_DEVICE inline float gelu_tanh_gradient(float x) {
  x = x > 12.0F ? 12.0F : x;
  x = x < -12.0F ? -12.0F : x;
  const float gate = gelu_gate(x);
  return gate + x * gate * (1.0F - gate) * (1.5957691216F * (1.0F + 3.0F * 0.044715F * x * x));
}

/// x/(1 + e⁻ˣ).
WEFT_HOST_DEVICE inline float silu(float x) {
  return x * logistic(x);
}
WEFT_HOST_DEVICE inline float silu_gradient(float x) {
  const float s = logistic(x);
  return s + x * s * (1.0F - s);
}

/// Eight elements share a quad of Philox words, sixteen bits each.
constexpr std::uint32_t kDropoutElements = 8;

/// The sixteen bits of element `element` mod 8 in the words of its quad. It uses selections, because GPUs can't keep an
/// array in registers if an index is unknown at compile time.
WEFT_HOST_DEVICE inline std::uint32_t dropout_bits(const PhiloxBlock& words, std::uint32_t element) {
  const std::uint32_t low = (element & 2) != 0 ? words[1] : words[0], high = (element & 2) != 0 ? words[3] : words[2];
  const std::uint32_t word = (element & 4) != 0 ? high : low;
  return (element & 1) != 0 ? word >> 16 : word & 0xffffU;
}

/// A probability p in [0, 1) in steps of 2⁻¹⁶. Elements whose bits are below `threshold` are dropped; the others are
/// multiplied by `scale`, so that the mean stays.
struct DropoutChance {
  std::uint32_t threshold;
  float scale;
};

inline DropoutChance dropout_chance(float p) {
  constexpr std::uint32_t kSteps = 1U << 16;
  const std::uint32_t threshold = std::min(static_cast<std::uint32_t>(std::lround(p * 0x1p16F)), kSteps - 1);
  return {threshold, 0x1p16F / static_cast<float>(kSteps - threshold)};
}

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
