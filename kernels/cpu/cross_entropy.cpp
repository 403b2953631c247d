// Softmax cross-entropy; see cross_entropy.h.
#include "kernels/cpu/cross_entropy.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {

void cross_entropy(Workers& workers, std::int64_t vocab, const Matrix& logits, const Matrix& targets,
                   const Matrix& losses, const Matrix* grad_scale) {
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
      const float top = max_of(x, vocab);
      const float total = sum_vectors(
          vocab, [&](std::int64_t i, auto lanes) { return lanes.fill(exp(lanes.load(x + i) - top), 0.0F); });
      const auto picked = static_cast<float>(x[target]);
      losses.f32()[row] = std::log(total) - (picked - top);
      if (grad_scale == nullptr) return;
      const float scale = grad_scale->f32()[0], factor = scale / total;
      for_vectors(vocab,
                  [&](std::int64_t i, auto lanes) { lanes.store(x + i, exp(lanes.load(x + i) - top) * factor); });
      // p − 1 is taken in fp32, before the rounding to T.
      const float probability = exp(broadcast(picked - top))[0] / total;
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
