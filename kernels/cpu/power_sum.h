// Σ eˣ over a row of logits, for softmax cross-entropy: in parts, each read from memory once, without overflow.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {

/// So many logits at a time: when one pass doesn't do, they stand in the first-level cache for the next.
inline constexpr std::int64_t kPowerPart = 2048, kMostPowerParts = 256;

inline std::int64_t power_part(std::int64_t n) {
  return std::max(kPowerPart, round_up(ceil_div(n, kMostPowerParts), 2 * kLanes));
}

/// eˣ⁻ʳ for x − r ≤ 88.
[[gnu::always_inline]] inline Floats power(Floats x, float reference) {
  return softmax_exp(x - reference);
}

/// Σ eˣ as total·e^reference. The reference is a logit, and subtracted before anything is rounded: logits may be
/// thousands, and their differences small. It needn't be the largest: it moves only to logits so far above it that the
/// sum might overflow.
struct PowerSum {
  float reference = std::numeric_limits<float>::lowest(), total = 0.0F;
  float largest = -std::numeric_limits<float>::infinity();

  /// Whether the reference had to move for logits up to `most`.
  bool make_room_for(float most) {
    constexpr float kFarAbove = 40.0F;
    largest = std::max(largest, most);
    if (!(most > reference + kFarAbove)) return false;  // nor if all are −inf
    total *= power(broadcast(reference), most)[0];
    reference = most;
    return true;
  }
  double log() const { return std::log(total) + static_cast<double>(reference); }
};

/// Adds n elements of x to a sum; `pass(f)` gives Σ f(x). `optimistic`: their powers are taken before it is seen
/// whether the reference has to move, and once more if so. Then x must outlive a pass, and n be a multiple of 2·kLanes.
/// The sum has the same bits either way.
template <class T, class Pass>
void add_powers(PowerSum& sum, const T* x, std::int64_t n, bool optimistic, const Pass& pass) {
  if (optimistic) {
    Floats most = broadcast(sum.largest);
    const float more = pass([&most, reference = sum.reference](Floats v) {
      most = max(v, most);
      return power(v, reference);
    });
    if (!sum.make_room_for(largest(most))) {
      sum.total += more;
      return;
    }
  } else {
    sum.make_room_for(max_of(x, n));
  }
  sum.total += pass([reference = sum.reference](Floats v) { return power(v, reference); });
}

template <class T>
PowerSum power_sum(const T* x, std::int64_t n) {
  PowerSum sum;
  const std::int64_t length = power_part(n);
  for (std::int64_t i = 0; i < n; i += length) {
    const std::int64_t part = std::min(length, n - i);
    add_powers(sum, x + i, part, i > 0 && part == length, [&](const auto& f) {
      return sum_of(part, f, Fetching<T>{x + i, x + i + length});
    });
  }
  return sum;
}

}  // namespace weft::cpu
