// Σ eˣ over a row of logits, for softmax cross-entropy: in parts, each read from memory once, without overflow.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/loss/near_exponentials.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {

/// Logits in a part: few enough that a second pass, if needed, finds them in the first-level cache.
template <class T>
inline constexpr std::int64_t kExponentialPart = 8192 / sizeof(T);
inline constexpr std::int64_t kMostExponentialParts = 256;

/// Logits at x; meanwhile the logits half a part further on are fetched.
template <class T>
Fetching<T> fetching_logits(const T* x) {
  return {x, x + kExponentialPart<T> / 2};
}

/// The parts of n logits, in order: whole parts, then a part of whole pairs of vectors, then the rest.
template <class T>
class ExponentialParts {
 public:
  explicit ExponentialParts(std::int64_t n)
      : n_(n), length_(std::max(kExponentialPart<T>, round_up(ceil_div(n, kMostExponentialParts - 2), kPair))) {}

  static bool in_pairs(std::int64_t part) { return part % kPair == 0; }

  /// Calls visit(first logit, logits, number of the part).
  template <class Visit>
  void visit(const Visit& visit) const {
    for (std::int64_t i = 0, p = 0, part = 0; i < n_; i += part, ++p) {
      part = std::min(length_, n_ - i);
      if (part > kPair) part -= part % kPair;
      visit(i, part, p);
    }
  }

 private:
  static constexpr std::int64_t kPair = 2 * kLanes;
  std::int64_t n_, length_;
};

/// eˣ⁻ʳ for x − r ≤ 88.
[[gnu::always_inline]] inline Floats exponential(Floats x, float reference) {
  return softmax_exp(x - reference);
}

/// Σ eˣ as total·e^reference. The reference is a logit; it is subtracted before anything is rounded, since logits may
/// be thousands while their differences are small. It need not be the largest logit: it moves only to logits so far
/// above it that the sum might overflow.
struct ExponentialSum {
  float reference = std::numeric_limits<float>::lowest(), total = 0.0F;
  float largest = -std::numeric_limits<float>::infinity();

  /// Takes logits up to `most` into account; returns whether the reference had to move.
  bool make_room_for(float most) {
    constexpr float kFarAbove = 40.0F;
    largest = std::max(largest, most);
    if (!(most > reference + kFarAbove)) return false;  // nor does it move if all are −inf
    total *= exponential(broadcast(reference), most)[0];
    reference = most;
    return true;
  }
  double log_sum_exp() const { return std::log(total) + static_cast<double>(reference); }
};

/// An empty sum whose reference, the largest of the row's first logits, is near that of the whole row.
template <class T>
ExponentialSum begin_exponential_sum(const T* x, std::int64_t n) {
  constexpr std::int64_t kFirst = 256;
  ExponentialSum sum;
  sum.make_room_for(max_of(x, std::min(kFirst, n)));
  return sum;
}

#if defined(__AVX512BW__)
/// Adds n logits to a sum if all are near its reference, as they usually are; returns whether they were. See
/// add_exponentials().
template <bool kNegative, class Pass>
bool add_near_exponentials(ExponentialSum& sum, const Fetching<bf16>& x, const Pass& pass) {
  Bf16Extremes<kNegative> extremes(bf16(sum.largest));
  const float more = pass(NearExponentials(sum.reference), Watching<kNegative>{x, extremes});
  const std::optional<float> most = extremes.largest();
  if (!most || extremes.may_be_below(sum.reference - NearExponentials::kFarthest) || sum.make_room_for(*most))
    return false;
  sum.total += more;
  return true;
}
template <class Pass>
bool add_near_exponentials(ExponentialSum& sum, const Fetching<bf16>& x, const Pass& pass) {
  if (!(std::abs(sum.reference) <= NearExponentials::kMost)) return false;
  return sum.largest < 0.0F ? add_near_exponentials<true>(sum, x, pass) : add_near_exponentials<false>(sum, x, pass);
}
#endif

/// Adds n elements of x to a sum; `pass(f, x)` returns Σ f(x). `optimistic`: exponentials are computed before it is
/// known whether the reference has to move, and again if it has. Then x must not change during a pass, and n must be a
/// multiple of 2·kLanes.
template <class T, class Pass>
void add_exponentials(ExponentialSum& sum, const Fetching<T>& x, std::int64_t n, bool optimistic, const Pass& pass) {
#if defined(__AVX512BW__)
  if constexpr (std::is_same_v<T, bf16>) {
    if (optimistic && add_near_exponentials(sum, x, pass)) return;
    optimistic = false;
  }
#endif
  if (optimistic) {
    Floats most = broadcast(sum.largest);
    const auto exponentials = [&most, reference = sum.reference](Floats v) {
      most = max(v, most);
      return softmax_exp_factors(v - reference);
    };
    const float more = pass(exponentials, x);
    if (!sum.make_room_for(largest(most))) {
      sum.total += more;
      return;
    }
  } else {
    sum.make_room_for(max_of(x.now, n));
  }
  sum.total += pass([reference = sum.reference](Floats v) { return softmax_exp_factors(v - reference); }, x);
}

template <class T>
ExponentialSum exponential_sum(const T* x, std::int64_t n) {
  ExponentialSum sum = begin_exponential_sum(x, n);
  const ExponentialParts<T> parts(n);
  parts.visit([&](std::int64_t i, std::int64_t part, std::int64_t /*number*/) {
    add_exponentials(sum, fetching_logits(x + i), part, ExponentialParts<T>::in_pairs(part),
                     [&](const auto& f, const auto& in) { return sum_of(part, f, in); });
  });
  return sum;
}

}  // namespace weft::cpu
