// Softmax cross-entropy, in place, of whole rows and of rows whose vocabulary is divided over several ranks, and the
// sum of losses, on a GPU; see kernels/cpu/loss/cross_entropy.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// losses[r] = log Σ_j exp(logits[r, j]) − logits[r, targets[r]] over the first `vocab` columns; 0 for a negative
/// target. With grad_scale (f32 [1], else null), logits become (softmax − onehot)·grad_scale, and 0 in ignored rows and
/// in the padding. A target outside the vocabulary is a fault.
void cross_entropy(const Launch& launch, std::int64_t vocab, const Matrix& logits, const Matrix& targets,
                   const Matrix& losses, const Matrix* grad_scale);

/// sums[0] (+)= Σ losses, sums[1] (+)= number of targets ≥ 0, added in double in a fixed order. sums f32 [2].
/// `replica` is device memory or null. If it isn't null and its value isn't 0, adds 0 instead.
void loss_sum(const Launch& launch, const Matrix& losses, const Matrix& targets, const Matrix& sums, bool accumulate,
              const std::int64_t* replica);

/// One rank's columns of the vocabulary.
struct VocabPart {
  const std::int64_t* coordinate;  // device memory
  std::int64_t vocab;
};

/// Statistics of each row of a part logits [rows, cols]: the largest logit (−∞ if there is none), Σ exp(logit −
/// largest), and the target's logit (−∞ if the target is in another part or negative). statistics f32, contiguous,
/// [rows, 3]. A target outside the vocabulary is a fault.
void vocab_statistics(const Launch& launch, const VocabPart& part, const Matrix& logits, const Matrix& targets,
                      const Matrix& statistics);

/// losses[r] = log Σ_j exp(logits[r, j]) − logits[r, targets[r]] over the whole vocabulary, 0 for a negative target.
/// `statistics`, f32, contiguous, [parts, rows, 3], holds the statistics of all parts. With grad_scale (f32 [1], else
/// null), logits become (softmax − onehot)·grad_scale, and 0 in ignored rows and in the padding; without it they aren't
/// read. A target outside the vocabulary is a fault.
void vocab_cross_entropy(const Launch& launch, const VocabPart& part, std::int64_t parts, const Matrix& logits,
                         const Matrix& targets, const Matrix& statistics, const Matrix& losses,
                         const Matrix* grad_scale);

}  // namespace weft::cuda
