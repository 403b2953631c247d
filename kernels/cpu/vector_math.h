// exp, exp2, logistics and sine/cosine of vectors without branches: GCC doesn't vectorise the C library's without
// -ffast-math, which would also license it to reorder sums. NaN passes through.
#pragma once

#include <bit>
#include <limits>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// min(x, bound) and max(x, bound); NaN stays.
inline Floats at_most(Floats x, float bound) {
  return min(broadcast(bound), x);
}
inline Floats at_least(Floats x, float bound) {
  return max(broadcast(bound), x);
}

inline constexpr float kLog2e = 1.44269504F;
inline constexpr float kRoundToWhole = 12582912.0F;  // 1.5·2²³: adding and subtracting it rounds to a whole number

/// value·2ⁿ for finite value and result, the latter not denormal; `shifted` is n + kRoundToWhole, n whole.
inline Floats times_power_of_two(Floats value, Floats shifted) {
#if defined(__AVX512F__)
  return lanes_cast<Floats>(
      _mm512_maskz_scalef_ps(0xffff, lanes_cast<__m512>(value), lanes_cast<__m512>(shifted - kRoundToWhole)));
#else
  // n stands in the last bits of `shifted`: it is added to the exponent.
  return lanes_cast<Floats>(lanes_cast<Words>(value) + (lanes_cast<Words>(shifted) << 23));
#endif
}

/// eˣ for −87.33654 ≤ x ≤ 88.72283, with a relative error below 1.5e-7 (2 ulp): Cody-Waite reduction to |r| ≤ ln2/2,
/// then a minimax polynomial (its error is 3e-9). NaN gives NaN; beyond the bounds any finite or infinite number.
inline Floats bounded_exp(Floats x) {
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  const Floats shifted = x * kLog2e + kRoundToWhole, n = shifted - kRoundToWhole;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  // Estrin's scheme: kernels wait for this chain of dependent operations more than for their number.
  const Floats r2 = r * r;
  const Floats upper = 1.38145986e-3F * r2 + (8.36871688e-3F * r + 4.1668388e-2F);
  const Floats p = (upper * r2 + (1.66665206e-1F * r + 4.99999934e-1F)) * r2 + (r + 1.0F);
  return times_power_of_two(p, shifted) + (x - x);  // + 0, or NaN
}

/// eˣ for any x, as accurate. Results that would be denormal are 0, above the range +inf; NaN gives NaN.
inline Floats exp(Floats x) {
  constexpr float kOverflow = 88.72283F, kUnderflow = -87.33654F;
  const Floats result = bounded_exp(at_least(at_most(x, kOverflow), kUnderflow));
  const Floats above = x > kOverflow ? broadcast(std::numeric_limits<float>::infinity()) : result;
  return x < kUnderflow ? Floats{} : above;
}

/// 2ˣ for −126 ≤ x ≤ 128 with a relative error below 2.5e-7; for NaN any number.
inline Floats bounded_exp2(Floats x) {
  const Floats shifted = x + kRoundToWhole, r = x - (shifted - kRoundToWhole);
  const Floats r2 = r * r;
  const Floats upper = (1.33002565e-3F * r + 9.66971847e-3F) * r2 + (5.55056004e-2F * r + 2.40222815e-1F);
  const Floats p = upper * r2 + (6.93147181e-1F * r + 1.0F);
  return times_power_of_two(p, shifted);
}

/// 2ˣ for x ≤ 128, as accurate; below −126 the result is at most 2⁻¹²⁶, for NaN NaN. For softmax, whose exponents are
/// scaled and shifted by one multiply-add.
inline Floats exp2(Floats x) {
  const Floats bounded = at_least(x, -126.0F);
  return bounded_exp2(bounded) + (bounded - bounded);  // + 0, or NaN
}

/// 1/x to 2 ulp for 2⁻¹²⁶ ≤ x ≤ 2¹²⁶, without a division where it is slow; 0 for +inf, NaN for NaN.
inline Floats reciprocal(Floats x) {
#if defined(__AVX512F__)
  const auto value = lanes_cast<__m512>(x);
  const Floats guess = lanes_cast<Floats>(_mm512_maskz_rcp14_ps(0xffff, value));
  const __mmask16 near = _mm512_cmp_ps_mask(value, _mm512_set1_ps(0x1p126F), _CMP_NGT_UQ);
  return lanes_cast<Floats>(_mm512_maskz_mul_ps(near, lanes_cast<__m512>(guess), lanes_cast<__m512>(2.0F - x * guess)));
#else
  return 1.0F / x;
#endif
}

/// 1/(1 + e⁻ˣ): silu(x) = x·logistic(x). 0 below −87.
inline Floats logistic(Floats x) {
  constexpr float kFar = 87.0F;
  const Floats bounded = at_most(at_least(x, -kFar), kFar);
  const Floats result = reciprocal(1.0F + bounded_exp(-bounded));
  return x < -kFar ? Floats{} : result;
}

/// 1/(1 + 2ˣ), for callers whose exponents come scaled: 0 from 128 on, for NaN any number.
inline Floats logistic2(Floats x) {
  return reciprocal(1.0F + bounded_exp2(at_most(at_least(x, -126.0F), 128.0F)));
}

struct SineCosine {
  Floats sine, cosine;
};

/// Sine and cosine of |x| ≤ 2²⁰ to 1.5e-7 absolute. The reduction by multiples of π/2 is done in double, so that
/// positions of hundreds of thousands keep their accuracy; then Taylor polynomials on |r| ≤ π/4.
inline SineCosine sine_cosine(Floats x) {
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
