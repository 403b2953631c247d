// exp, logistic and sine/cosine of sixteen lanes without branches: GCC doesn't vectorise the C library's without
// -ffast-math, which would also license it to reorder sums.
#pragma once

#include <bit>
#include <limits>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// eˣ with a relative error below 1.5e-7 (2 ulp). Results that would be denormal are 0, above the range +inf; NaN
/// gives NaN. Cody-Waite reduction to |r| ≤ ln2/2, then the Taylor polynomial of degree 7 (its remainder is 5e-9).
inline Floats exp(Floats x) {
  constexpr float kOverflow = 88.72283F, kUnderflow = -87.33654F;
  constexpr float kLog2e = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5·2²³: adding it rounds to an integer, which stands in the low bits
  Floats bounded = x > kOverflow ? broadcast(kOverflow) : x;
  bounded = bounded < kUnderflow ? broadcast(kUnderflow) : bounded;
  const Floats shifted = bounded * kLog2e + kRound;
  const Floats n = shifted - kRound;
  const Ints exponent = lanes_cast<Ints>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const Floats r = (bounded - n * kLn2High) - n * kLn2Low;
  Floats p = broadcast(1.0F / 5040.0F);
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // 2ⁿ in two factors, since n reaches 128 and −126.
  const Ints half = exponent >> 1;
  const Floats scale = lanes_cast<Floats>((half + 127) << 23);
  const Floats rest = lanes_cast<Floats>((exponent - half + 127) << 23);
  Floats result = p * scale * rest;
  result = x > kOverflow ? broadcast(std::numeric_limits<float>::infinity()) : result;
  return x < kUnderflow ? Floats{} : result;
}

/// 1/(1 + e⁻ˣ): silu(x) = x·logistic(x), and ½(1 + tanh u) = logistic(2u).
inline Floats logistic(Floats x) {
  return 1.0F / (1.0F + exp(-x));
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
