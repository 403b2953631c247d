// Exponentials, logistic functions and sine/cosine of vectors without branches. GCC vectorises the C library's
// functions only with -ffast-math, which would also permit it to reorder sums. NaN passes through.
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
#if defined(__AVX512F__)
// 1.5·2¹⁸: adding it rounds to a multiple of 1/32 and leaves 32 times that in the last bits.
inline constexpr float kRoundExponent = 393216.0F;

/// factor·2ⁿ⁺ʳ for |r| ≤ 1/64 and multiples n of 1/32 in −127 … 128, with a relative error below 2e-7, or NaN if r is
/// NaN. `shifted` is n + kRoundExponent, or another number whose last bits are the same.
[[gnu::always_inline]] inline Product exp2_of_parts(Floats shifted, Floats r, float factor = 1.0F) {
  // The number of operations matters here: a table in two registers costs two operations and saves four. An entry is
  // the bits of 2ʲᐟ³² minus j at the position of 32·n's last bits, so that adding them gives n's whole part as the
  // exponent.
  const Words first = {0x3f800000U, 0x3f7ecd87U, 0x3f7daac3U, 0x3f7c980fU, 0x3f7b95c2U, 0x3f7aa43aU,
                       0x3f79c3d3U, 0x3f78f4f0U, 0x3f7837f0U, 0x3f778d3aU, 0x3f76f532U, 0x3f767043U,
                       0x3f75fed7U, 0x3f75a15bU, 0x3f75583fU, 0x3f7523f6U};
  const Words last = {0x3f7504f3U, 0x3f74fbafU, 0x3f7508a4U, 0x3f752c4dU, 0x3f75672aU, 0x3f75b9beU,
                      0x3f76248cU, 0x3f76a81eU, 0x3f7744fdU, 0x3f77fbb8U, 0x3f78ccdfU, 0x3f79b907U,
                      0x3f7ac0c7U, 0x3f7be4baU, 0x3f7d257dU, 0x3f7e83b3U};
  const Words entry = look_up(first, last, lanes_cast<Words>(shifted));
  const Floats fraction = (2.40226512e-1F * factor * r + 6.93157328e-1F * factor) * r + factor;
  return {fraction, lanes_cast<Floats>(entry + (lanes_cast<Words>(shifted) << 18))};
}
#else
// 1.5·2²³ + 127: adding it rounds to a whole number n and leaves n + 127 in the last bits.
inline constexpr float kRoundExponent = 12583039.0F;

/// 2ⁿ⁺ʳ for |r| ≤ ½ and whole n in −126 … 128, with a relative error below 2.5e-7, or NaN if r is NaN. `shifted` is n +
/// kRoundExponent.
[[gnu::always_inline]] inline Product exp2_of_parts(Floats shifted, Floats r) {
  // Estrin's scheme: kernels wait for the latency of this dependent chain more than for the number of operations.
  const Floats r2 = r * r;
  const Floats upper = (1.33002565e-3F * r + 9.66971847e-3F) * r2 + (5.55056004e-2F * r + 2.40222815e-1F);
  const Floats fraction = upper * r2 + (6.93147181e-1F * r + 1.0F);
  return {fraction, lanes_cast<Floats>(lanes_cast<Words>(shifted) << 23)};  // 2ⁿ: n + 127 is its exponent's bits
}
#endif

/// eˣ for x ≤ 88, for softmax, with a relative error below 2.5e-7 + 2e-8·|x|: at most 2⁻¹²⁶ below −87.3; NaN for NaN.
[[gnu::always_inline]] inline Product softmax_exp_factors(Floats x) {
  const Floats bounded = at_least(x, -88.0F);
  const Floats log2e = broadcast(kLog2e), shifted = multiply_add(bounded, log2e, broadcast(kRoundExponent));
  return exp2_of_parts(shifted, multiply_add(bounded, log2e, kRoundExponent - shifted));
}
[[gnu::always_inline]] inline Floats softmax_exp(Floats x) {
  return softmax_exp_factors(x).value();
}

/// x/(1 + 2ⁿ⁺ʳ), with n and r as in exp2_of_parts; 0 if 2ⁿ is infinite.
[[gnu::always_inline]] inline Floats over_one_plus_exp2(Floats x, Floats shifted, Floats r) {
  const Product exponential = exp2_of_parts(shifted, r);
  return x / multiply_add(exponential.a, exponential.b, broadcast(1.0F));
}

/// x/(1 + 2ᵃᵇ) to 4e-7 for ab in −126 … 128, and 0 above; NaN for NaN.
[[gnu::always_inline]] inline Floats over_one_plus_exp2_of(Floats x, Floats a, Floats b) {
  const Floats shifted = multiply_add(a, b, broadcast(kRoundExponent));
  return over_one_plus_exp2(x, shifted, multiply_add(a, b, kRoundExponent - shifted));
}

/// 1/(1 + e⁻ˣ) to 3e-7: silu(x) = x·logistic(x). 0 from −88.72 on, NaN for NaN.
[[gnu::always_inline]] inline Floats logistic(Floats x) {
  constexpr float kLog2eLow = 1.9259630e-8F;  // the part of log₂e that fp32's rounding drops
  const Floats bounded = at_most(at_least(x, -88.72F), 87.0F), minus_log2e = broadcast(-kLog2e);
  const Floats shifted = multiply_add(bounded, minus_log2e, broadcast(kRoundExponent));
  const Floats r = multiply_add(bounded, minus_log2e, kRoundExponent - shifted);
  return over_one_plus_exp2(broadcast(1.0F), shifted, multiply_add(bounded, broadcast(-kLog2eLow), r));
}

struct SineCosine {
  Floats sine, cosine;
};

/// Sine and cosine of |x| ≤ 2²⁰ to 1.5e-7 absolute. The reduction by multiples of π/2 is done in double, so that
/// positions in the hundreds of thousands keep their accuracy; Taylor polynomials follow on |r| ≤ π/4.
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
