// GELU (tanh approximation) and SiLU of one number, with their derivatives, for CUDA kernels; fp32 to a few ulp.
// kernels/cpu/elementwise/activation.cpp has the same formulas for vectors.
#pragma once

#include <cmath>

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

}  // namespace weft::kernels
