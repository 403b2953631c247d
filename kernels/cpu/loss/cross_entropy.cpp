// Softmax cross-entropy of whole rows and of rows in parts; see cross_entropy.h.
#include "kernels/cpu/loss/cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "base/error.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/loss/exponential_sum.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {

namespace {

// Replaces x by factor·eˣ⁻ʳ, where Σ eˣ = total·eʳ; `factor` is a function of the sum. Until the sum is known,
// `exponentials` holds n floats in load_pair's order: the exponentials of each part relative to its own reference, so
// that each exponential is computed once. `exponentials` may be x. The sum has the same bits as exponential_sum's.
template <class T, class Factor>
ExponentialSum replace_by_exponentials(T* x, float* exponentials, std::int64_t n, const Factor& factor) {
  constexpr bool kInPlace = std::is_same_v<T, float>;
  const ExponentialParts<T> parts(n);
  std::array<float, kMostExponentialParts> references{};
  ExponentialSum sum = begin_exponential_sum(x, n);
  parts.visit([&](std::int64_t i, std::int64_t part, std::int64_t number) {
    add_exponentials(sum, fetching_logits<T>(x + i), part, !kInPlace && ExponentialParts<T>::in_pairs(part),
                     [&](const auto& f, const auto& in) { return transform_and_sum(part, exponentials + i, f, in); });
    references.at(static_cast<std::size_t>(number)) = sum.reference;
  });
  parts.visit([&](std::int64_t i, std::int64_t part, std::int64_t number) {
    const float of_part = references.at(static_cast<std::size_t>(number));
    const float scale = factor(sum) * exponential(broadcast(of_part), sum.reference)[0];
    transform(
        part, x + i, [&](Floats v) { return v * scale; }, exponentials + i);
  });
  return sum;
}

void check_target(std::int64_t target, std::int64_t vocab) {
  if (target >= vocab) throw RuntimeFault(fmt::format("target {} is outside the vocabulary of {}", target, vocab));
}

// Memory for a row's exponentials until their sum is known.
float* exponentials_of(float* x, Workers& /*workers*/) {
  return x;
}
float* exponentials_of(const bf16* /*x*/, Workers& workers) {
  return ScratchParts(workers.worker_scratch()).floats(0);
}

}  // namespace

void cross_entropy(Workers& workers, std::int64_t vocab, const Matrix& logits, const Matrix& targets,
                   const Matrix& losses, const Matrix* grad_scale) {
  with_element_type(logits.dtype, [&]<class T>(std::type_identity<T>) {
    for_rows(workers, logits.rows, logits.cols, [&](std::int64_t row) {
      T* x = elements<T>(logits, row);
      const std::int64_t target = targets.i32()[row];
      check_target(target, vocab);
      if (target < 0) {
        losses.f32()[row] = 0.0F;
        if (grad_scale != nullptr) std::fill_n(x, logits.cols, T(0.0F));
        return;
      }
      const auto picked = static_cast<float>(x[target]);
      const float scale = grad_scale == nullptr ? 0.0F : grad_scale->f32()[0];
      const ExponentialSum sum =
          grad_scale == nullptr
              ? exponential_sum(x, vocab)
              : replace_by_exponentials(x, exponentials_of(x, workers), vocab,
                                        [&](const ExponentialSum& whole) { return scale / whole.total; });
      losses.f32()[row] = static_cast<float>(sum.log_sum_exp() - picked);
      if (grad_scale == nullptr) return;
      // p − 1 is computed in fp32, before it is rounded to T.
      const float probability = exponential(broadcast(picked), sum.reference)[0] / sum.total;
      x[target] = T((probability - 1.0F) * scale);
      std::fill(x + vocab, x + logits.cols, T(0.0F));
    });
  });
}

Scratch cross_entropy_scratch(std::int64_t vocab, DType dtype, bool gradient) {
  return {gradient && dtype == DType::bf16 ? ScratchParts::bytes(vocab) : 0, 0};
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

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// The columns of a part that are tokens: columns [0, tokens) are the tokens from `first` on.
struct Columns {
  std::int64_t first, tokens;

  Columns(const VocabPart& part, std::int64_t cols)
      : first(part.coordinate * cols), tokens(std::clamp<std::int64_t>(part.vocab - first, 0, cols)) {}
  bool has(std::int64_t token) const { return token >= first && token < first + tokens; }
};

float scalar_exp(float x) {
  return softmax_exp(broadcast(x))[0];
}

}  // namespace

void vocab_statistics(Workers& workers, const VocabPart& part, const Matrix& logits, const Matrix& targets,
                      const Matrix& statistics) {
  const Columns columns(part, logits.cols);
  with_element_type(logits.dtype, [&]<class T>(std::type_identity<T>) {
    for_rows(workers, logits.rows, logits.cols, [&](std::int64_t row) {
      const T* x = elements<T>(logits, row);
      const std::int64_t target = targets.i32()[row];
      check_target(target, part.vocab);
      const ExponentialSum sum = exponential_sum(x, columns.tokens);
      float* out = statistics.f32() + row * 3;
      out[0] = sum.largest;
      // If all logits are −∞, the reference is larger than they are, and the total is 0.
      out[1] = sum.total * scalar_exp(sum.reference - std::max(sum.largest, sum.reference));
      out[2] = columns.has(target) ? static_cast<float>(x[target - columns.first]) : kNone;
    });
  });
}

void vocab_cross_entropy(Workers& workers, const VocabPart& part, std::int64_t parts, const Matrix& logits,
                         const Matrix& targets, const Matrix& statistics, const Matrix& losses,
                         const Matrix* grad_scale) {
  const Columns columns(part, logits.cols);
  const std::int64_t cols = logits.cols, rows = logits.rows;
  if (part.vocab > parts * cols) {
    throw std::logic_error(fmt::format("{} parts of {} columns are too few for {} tokens", parts, cols, part.vocab));
  }
  with_element_type(logits.dtype, [&]<class T>(std::type_identity<T>) {
    for_rows(workers, rows, grad_scale != nullptr ? cols : 3 * parts, [&](std::int64_t row) {
      T* x = elements<T>(logits, row);
      const std::int64_t target = targets.i32()[row];
      check_target(target, part.vocab);
      if (target < 0) {
        losses.f32()[row] = 0.0F;
        if (grad_scale != nullptr) std::fill_n(x, cols, T(0.0F));
        return;
      }
      const auto of_part = [&](std::int64_t p) { return statistics.f32() + (p * rows + row) * 3; };
      float top = kNone, total = 0.0F;
      for (std::int64_t p = 0; p < parts; ++p) top = std::max(top, of_part(p)[0]);
      for (std::int64_t p = 0; p < parts; ++p) total += of_part(p)[1] * scalar_exp(of_part(p)[0] - top);
      const float picked = of_part(target / cols)[2];
      losses.f32()[row] = std::log(total) - (picked - top);
      if (grad_scale == nullptr) return;
      const float scale = grad_scale->f32()[0], factor = scale / total;
      transform(
          columns.tokens, x, [&](Floats v) { return exponential(v, top) * factor; },
          Fetching<T>{x, x + logits.row_stride});
      if (columns.has(target)) {
        // p − 1 is computed in fp32, before it is rounded to T.
        const float probability = scalar_exp(picked - top) / total;
        x[target - columns.first] = T((probability - 1.0F) * scale);
      }
      std::fill(x + columns.tokens, x + cols, T(0.0F));
    });
  });
}

}  // namespace weft::cpu
