// Softmax cross-entropy, of whole rows of logits or of rows divided over several ranks, and the sum of losses.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

/// Cross-entropy with the targets; a negative target is ignored: loss 0, gradient 0. Columns from `vocab` on are
/// padding: they don't take part and get gradient 0. With `gradient`, logits are replaced by d(sum of
/// losses)·grad_scale.
struct CrossEntropy {
  std::int64_t rows, vocab, padded;
  bool gradient = true;

  static constexpr std::string_view kind = "cross_entropy";
  static constexpr auto fields() {
    return std::tuple{field("rows", &CrossEntropy::rows), field("vocab", &CrossEntropy::vocab),
                      field("padded", &CrossEntropy::padded), field("gradient", &CrossEntropy::gradient)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("logits", {rows, padded}, kFloat).updated_when(gradient),
        reads("targets", {rows}, DType::i32),
        writes("losses", {rows}, DType::f32),
        reads("grad_scale", {1}, DType::f32).when(gradient),
    };
  }
  constexpr Work work(double element_bytes) const {
    return each(rows * padded, 12, (gradient ? 3 : 1) * element_bytes);
  }
};

/// Statistics of a row of logits whose columns are divided over several ranks: the largest logit, the sum of exp(logit
/// − largest), and the target's logit (−∞ if another rank has it). The rank's columns are tokens [c·cols, (c+1)·cols)
/// of coordinate c; columns from `vocab` on are padding.
struct VocabStatistics {
  std::int64_t rows, cols, vocab;

  static constexpr std::string_view kind = "vocab_statistics";
  static constexpr auto fields() {
    return std::tuple{field("rows", &VocabStatistics::rows), field("cols", &VocabStatistics::cols),
                      field("vocab", &VocabStatistics::vocab)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("logits", {rows, cols}, kFloat),
        reads("targets", {rows}, DType::i32),
        reads("coordinate", {1}, DType::i64),
        // [rows, 3]
        writes("statistics", {rows * 3}, DType::f32),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, 6, element_bytes); }
};

/// CrossEntropy of rows divided over several ranks: combines the statistics of all parts in their order.
struct VocabCrossEntropy {
  std::int64_t rows, cols, vocab, parts;
  bool gradient = true;

  static constexpr std::string_view kind = "vocab_cross_entropy";
  static constexpr auto fields() {
    return std::tuple{field("rows", &VocabCrossEntropy::rows), field("cols", &VocabCrossEntropy::cols),
                      field("vocab", &VocabCrossEntropy::vocab), field("parts", &VocabCrossEntropy::parts),
                      field("gradient", &VocabCrossEntropy::gradient)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("logits", {rows, cols}, kFloat).updated_when(gradient),
        reads("targets", {rows}, DType::i32),
        reads("coordinate", {1}, DType::i64),
        reads("statistics", {parts * rows * 3}, DType::f32),  // [parts, rows, 3]
        writes("losses", {rows}, DType::f32),
        reads("grad_scale", {1}, DType::f32).when(gradient),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {gradient ? 6 * as_double(rows * cols) : as_double(rows),
            gradient ? 2 * element_bytes * as_double(rows * cols) : 0};
  }
};

/// sums[0] (+)= sum of losses, sums[1] (+)= count of targets ≥ 0. If owned: only where `replica` is 0; other replicas
/// add 0, so that a sum over ranks counts each row once.
struct LossSum {
  std::int64_t rows;
  bool accumulate = false, owned = false;

  static constexpr std::string_view kind = "loss_sum";
  static constexpr auto fields() {
    return std::tuple{field("rows", &LossSum::rows), field("accumulate", &LossSum::accumulate),
                      field("owned", &LossSum::owned)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("losses", {rows}, DType::f32),
        reads("targets", {rows}, DType::i32),
        writes("sums", {2}, DType::f32).updated_when(accumulate),
        reads("replica", {1}, DType::i64).when(owned),
    };
  }
  constexpr Work work(double /*element_bytes*/) const { return each(rows, 1, 8); }
};

using LossOperations = OperationList<CrossEntropy, VocabStatistics, VocabCrossEntropy, LossSum>;

}  // namespace weft::graph
