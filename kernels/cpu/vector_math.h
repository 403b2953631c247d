// Powers, logistics and sine/cosine of vectors without branches: GCC doesn't vectorise the C library's without
// -ffast-math, which would also license it to reorder sums. NaN passes through.
#pragma once

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// min(x, bound) and max(x, bound); NaN stays.
[[gnu::always_inline]] inline Floats at_most(Floats x, float bound) {
  return min(broadcast(bound), x);
}
[[gnu::always_inline]] inline Floats at_least(Floats x, float bound) {
  return max(broadcast(bound), x);
}

inline constexpr float kLog2e = 1.44269504F;
// 1.5·2²³ + 127: adding it rounds to a whole number n and leaves n + 127 in the last bits.
inline constexpr float kRoundToWhole = 12583039.0F;

/// 2ⁿ⁺ʳ for |r| ≤ ½ and −126 ≤ n ≤ 128 with a relative error below 2.5e-7, or NaN if r is NaN. `shifted` is n +
/// kRoundToWhole.
[[gnu::always_inline]] inline Floats exp2_of_parts(Floats shifted, Floats r) {
  // Estrin's scheme: kernels wait for this chain of dependent operations more than for their number.
  const Floats r2 = r * r;
  const Floats upper = (1.33002565e-3F * r + 9.66971847e-3F) * r2 + (5.55056004e-2F * r + 2.40222815e-1F);
  const Floats fraction = upper * r2 + (6.93147181e-1F * r + 1.0F);
  return fraction * lanes_cast<Floats>(lanes_cast<Words>(shifted) << 23);  // 2ⁿ: n + 127 is its exponent's bits
}

/// eˣ for x ≤ 88, as softmax needs it, with a relative error below 2.5e-7 + 2e-8·|x|: at most 2⁻¹²⁶ below −87.3, NaN
/// for NaN.
[[gnu::always_inline]] inline Floats softmax_exp(Floats x) {
  const Floats bounded = at_least(x, -88.0F);
  const Floats log2e = broadcast(kLog2e), shifted = multiply_add(bounded, log2e, broadcast(kRoundToWhole));
  return exp2_of_parts(shifted, multiply_add(bounded, log2e, kRoundToWhole - shifted));
}

/// 1/(1 + 2ˣ) to 4e-7, for callers whose exponents come scaled: 0 from 128 on, NaN for NaN.
[[gnu::always_inline]] inline Floats logistic2(Floats x) {
  const Floats bounded = at_most(at_least(x, -126.0F), 128.0F);
  const Floats shifted = bounded + kRoundToWhole;
  return 1.0F / (1.0F + exp2_of_parts(shifted, bounded - (shifted - kRoundToWhole)));
}

/// 1/(1 + e⁻ˣ) to 3e-7: silu(x) = x·logistic(x). 0 from −89 on, NaN for NaN.
[[gnu::always_inline]] inline Floats logistic(Floats x) {
  constexpr float kLog2eLow = 1.9259630e-8F;  // what fp32 leaves of log₂e
  const Floats negative = -at_most(at_least(x, -89.0F), 87.0F), log2e = broadcast(kLog2e);
  const Floats shifted = multiply_add(negative, log2e, broadcast(kRoundToWhole));
  const Floats r = multiply_add(negative, log2e, kRoundToWhole - shifted);
  return 1.0F / (1.0F + exp2_of_parts(shifted, multiply_add(negative, broadcast(kLog2eLow), r)));
}

struct SineCosine {
  Floats sine, cosine;
};

/// Sine and cosine of |x| ≤ 2²⁰ to 1.5e-7 absolute. The reduction by multiples of π/2 is done in double, so that
/// positions of hundreds of thousands keep their accuracy; then Taylor polynomials on |r| ≤ π/4.
[[gnu::always_inline]] inline SineCosine sine_cosine(Floats x) {
  constexpr double kTwoOverPi = 0.63661977236758134308, kHalfPi = 1.57079632679489661923;
  constexpr double kRound = 6755399441055744.0;  // 1.5·2⁵²
  const Doubles wide = __builtin_convertvector(x, Doubles);
  const Doubles n = (wide * kTwoOverPi + kRound) - kRound;
  const Floats r = __builtin_convertvector(wide - n * kHalfPi, Floats);
  const Ints quadrant = __builtin_convertvector(n, Ints);
  const Floats r2 = r * r;
  Floats s = broadcast(2.7557319e-6F);
  s = s * r2 - 1.9841270e-4F;
  s = s * r2 + 8.3333333e-3F;
  s = s * r2 - 1.6666667e-1F;
  s = s * r2 * r + r;
  Floats c = broadcast(-2.7557319e-7F);
  c = c * r2 + 2.4801587e-5F;
  c = c * r2 - 1.3888889e-3F;
  c = c * r2 + 4.1666667e-2F;
  c = c * r2 - 0.5F;
  c = c * r2 + 1.0F;
  const Ints odd = quadrant & 1;
  const Floats sine = odd != 0 ? c : s, cosine = odd != 0 ? s : c;
  return {(quadrant & 2) != 0 ? -sine : sine, ((quadrant + 1) & 2) != 0 ? -cosine : cosine};
}

}  // namespace weft::cpu
