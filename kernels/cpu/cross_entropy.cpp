// Softmax cross-entropy; see cross_entropy.h.
#include "kernels/cpu/cross_entropy.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {

namespace {

// Σ eˣ of a row, as total·e^reference. The reference is subtracted before anything is rounded: logits may be thousands,
// and their differences small. The logits are read from memory once: a part that has given its maximum still stands in
// the cache when it is added up. When a later part has a larger maximum, the sum so far is scaled down.
struct PowerSum {
  float reference = std::numeric_limits<float>::lowest(), total = 0.0F;

  template <class T>
  void add(const T* x, std::int64_t n) {
    const float top = max_of(x, n);
    if (top > reference) {
      total *= power(broadcast(reference), top)[0];
      reference = top;
    }
    total += sum_of(
        n, [&](Floats v) { return power(v); }, x);
  }
  Floats power(Floats x) const { return power(x, reference); }
  static Floats power(Floats x, float reference) { return exp2((x - reference) * kLog2e); }
  double log() const { return std::log(total) + static_cast<double>(reference); }
};

}  // namespace

void cross_entropy(Workers& workers, std::int64_t vocab, const Matrix& logits, const Matrix& targets,
                   const Matrix& losses, const Matrix* grad_scale) {
  constexpr std::int64_t kPart = 2048;
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_rows(workers, logits.rows, logits.cols, [&](std::int64_t row) {
      T* x = elements<T>(logits, row);
      const std::int64_t target = targets.i32()[row];
      if (target >= vocab) {
        throw RuntimeFault(fmt::format("target {} is outside the vocabulary of {}", target, vocab));
      }
      if (target < 0) {
        losses.f32()[row] = 0.0F;
        if (grad_scale != nullptr) std::fill_n(x, logits.cols, T(0.0F));
        return;
      }
      PowerSum sum;
      for (std::int64_t i = 0; i < vocab; i += kPart) sum.add(x + i, std::min(kPart, vocab - i));
      const auto picked = static_cast<float>(x[target]);
      losses.f32()[row] = static_cast<float>(sum.log() - picked);
      if (grad_scale == nullptr) return;
      const float scale = grad_scale->f32()[0], factor = scale / sum.total;
      transform(
          vocab, x, [&](Floats v) { return sum.power(v) * factor; }, x);
      // p − 1 is taken in fp32, before the rounding to T.
      const float probability = sum.power(broadcast(picked))[0] / sum.total;
      x[target] = T((probability - 1.0F) * scale);
      std::fill(x + vocab, x + logits.cols, T(0.0F));
    });
  };
  with_element_type(run, logits);
}

void loss_sum(Workers& workers, const Matrix& losses, const Matrix& targets, const Matrix& sums, bool accumulate,
              bool owner) {
  workers.run(1, [&](std::int64_t) {
    double total = 0;
    std::int64_t counted = 0;
    for (std::int64_t row = 0; owner && row < count(losses); ++row) {
      total += losses.f32()[row];
      counted += targets.i32()[row] >= 0 ? 1 : 0;
    }
    float* out = sums.f32();
    out[0] = static_cast<float>(total + (accumulate ? out[0] : 0.0F));
    out[1] = static_cast<float>(static_cast<double>(counted) + (accumulate ? out[1] : 0.0F));
  });
}

}  // namespace weft::cpu
