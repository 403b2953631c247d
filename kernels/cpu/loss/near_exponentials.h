// Σ eˣ over bf16 logits near a reference, in fewer instructions than softmax_exp_factors. The reference isn't
// subtracted and the logits aren't bounded; instead, a check after the sum tells whether all logits were near, by
// comparing bf16 values as integers, 32 at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/cpu/vector_math.h"

#if defined(__AVX512BW__)
namespace weft::cpu {

/// eˣ⁻ʳ for a reference |r| ≤ kMost and −kFarthest ≤ x − r ≤ 88, with the error of softmax_exp_factors.
class NearExponentials {
 public:
  static constexpr float kMost = 40000.0F, kFarthest = 87.0F;

  explicit NearExponentials(float reference) {
    // r·log₂e, rounded to 32nds, joins the number that rounds; the remainder is a factor eʸ with |y| ≤ ln 2/64.
    const double exponent = static_cast<double>(reference) * kLog2e, rounded = std::nearbyint(exponent * 32) / 32;
    const double y = (rounded - exponent) * 0.69314718056;
    offset_ = static_cast<float>(kRoundExponent - rounded);
    factor_ = static_cast<float>(1 + y * (1 + y * (1.0 / 2 + y * (1.0 / 6))));
  }
  [[gnu::always_inline]] Product operator()(Floats x) const {
    const Floats log2e = broadcast(kLog2e), shifted = multiply_add(x, log2e, broadcast(offset_));
    return exp2_of_parts(shifted, multiply_add(x, log2e, offset_ - shifted), factor_);
  }

 private:
  float offset_, factor_;
};

/// The largest and the smallest of some bf16 values and of `first`, which is one of the largest so far. As integers,
/// positive values are in order and negative values in reverse order; as unsigned integers, negative values are above
/// all positive ones. `kNegative` tells that `first` is negative; then all values are assumed to be negative, and
/// largest() checks it.
template <bool kNegative>
class Bf16Extremes {
 public:
  explicit Bf16Extremes(bf16 first) : largest_(all(first.bits)), smallest_(all(kMinusZero)) {}

  [[gnu::always_inline]] void add(__m512i values) {
    largest_ =
        kNegative ? _mm512_maskz_min_epu16(kAll, values, largest_) : _mm512_maskz_max_epi16(kAll, values, largest_);
    smallest_ = _mm512_maskz_max_epu16(kAll, values, smallest_);
  }
  /// Nothing if a value isn't negative although kNegative is set.
  std::optional<float> largest() const {
    bf16 result(kNegative ? -std::numeric_limits<float>::infinity() : 0.0F);
    for (const std::uint16_t lane : lanes_cast<Lanes>(largest_)) {
      result.bits = kNegative ? std::min(result.bits, lane) : std::max(result.bits, lane);
    }
    if (kNegative && result.bits < kMinusZero) return std::nullopt;
    return static_cast<float>(result);
  }
  /// Whether a value may be below `bound`, or a negative NaN. True if the bound isn't negative.
  bool may_be_below(float bound) const {
    if (!(bound < 0.0F)) return true;
    std::uint16_t most = kMinusZero;
    for (const std::uint16_t lane : lanes_cast<Lanes>(smallest_)) most = std::max(most, lane);
    return most > std::bit_cast<std::uint32_t>(bound) >> 16;
  }

 private:
  using Lanes = std::array<std::uint16_t, 32>;
  static constexpr std::uint16_t kMinusZero = 0x8000;
  static constexpr __mmask32 kAll = 0xffffffff;

  static __m512i all(std::uint16_t bits) { return _mm512_set1_epi16(static_cast<short>(bits)); }

  __m512i largest_, smallest_;
};

/// The elements of a Fetching as an input of sum_of() and similar functions; keeps the extremes of whole pairs of
/// vectors.
template <bool kNegative>
struct Watching {
  Fetching<bf16> in;
  Bf16Extremes<kNegative>& extremes;

  Watching operator+(std::int64_t i) const { return {in + i, extremes}; }
};
template <bool kNegative>
[[gnu::always_inline]] inline Pair load_pair(const Watching<kNegative>& from) {
  fetch_pair(from.in);
  const Words words = load_words(from.in.now);
  from.extremes.add(lanes_cast<__m512i>(words));
  return pair_of(words);
}
template <bool kNegative>
Floats load(const Watching<kNegative>& from) {
  return load(from.in);
}
template <bool kNegative>
Floats load_partial(const Watching<kNegative>& from, std::int64_t count) {
  return load_partial(from.in, count);
}

}  // namespace weft::cpu
#endif
