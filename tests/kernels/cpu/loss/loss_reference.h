// Softmax cross-entropy in double precision, and its gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/reference.h"

namespace weft::cpu::testing {

struct LossReference {
  Values losses, gradient;  // zero where there is no target
};

/// `logits`: a row for each target, of which the first `vocab` columns count; `scale`: the gradient of each loss.
inline LossReference loss_in_double(std::int64_t vocab, const Values& logits, const std::vector<std::int64_t>& targets,
                                    double scale) {
  LossReference result{{}, Values(logits.size())};
  const std::size_t cols = logits.size() / targets.size();
  for (std::size_t r = 0; r < targets.size(); ++r) {
    const double* row = logits.data() + r * cols;
    const double top = *std::max_element(row, row + vocab);
    double total = 0;
    for (std::int64_t c = 0; c < vocab; ++c) total += std::exp(row[c] - top);
    result.losses.push_back(targets[r] < 0 ? 0.0 : std::log(total) + top - row[targets[r]]);
    for (std::int64_t c = 0; targets[r] >= 0 && c < vocab; ++c) {
      result.gradient[r * cols + static_cast<std::size_t>(c)] =
          (std::exp(row[c] - top) / total - (c == targets[r] ? 1.0 : 0.0)) * scale;
    }
  }
  return result;
}

/// Targets of which every fourth is none.
inline std::vector<std::int64_t> some_targets(std::int64_t rows, std::int64_t vocab) {
  std::vector<std::int64_t> targets;
  for (std::int64_t r = 0; r < rows; ++r) targets.push_back(r % 4 == 3 ? -1 - r : r * 31 % vocab);
  return targets;
}

}  // namespace weft::cpu::testing
