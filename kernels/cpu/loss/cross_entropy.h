// Softmax cross-entropy, in place, and the sum of its losses; also of logits whose vocabulary is divided over several
// ranks: part c has the columns of tokens [c·cols, (c+1)·cols). Columns from `vocab` on are padding, which may fill
// whole parts.
#pragma once

#include <cstdint>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// losses[r] = log Σ_j exp(logits[r, j]) − logits[r, targets[r]] over the first `vocab` columns; 0 for a negative
/// target. With grad_scale (f32 [1], else null), logits become (softmax − onehot)·grad_scale, and 0 in ignored rows and
/// in padding columns. logits of a float dtype [rows, padded]; targets i32, losses f32 [rows]. Throws RuntimeFault for
/// a target outside the vocabulary.
void cross_entropy(Workers& workers, std::int64_t vocab, const Matrix& logits, const Matrix& targets,
                   const Matrix& losses, const Matrix* grad_scale);
Scratch cross_entropy_scratch(std::int64_t vocab, DType dtype, bool gradient);

/// sums[0] (+)= Σ losses, sums[1] (+)= number of targets ≥ 0, added in double in row order. sums f32 [2].
/// A rank that isn't the `owner` of these rows adds 0, because another rank counts them.
void loss_sum(Workers& workers, const Matrix& losses, const Matrix& targets, const Matrix& sums, bool accumulate,
              bool owner = true);

/// One rank's columns of the vocabulary.
struct VocabPart {
  std::int64_t coordinate, vocab;
};

/// Statistics of each row of a part logits [rows, cols]: the largest logit (−∞ if there is none), Σ exp(logit −
/// largest), and the target's logit (−∞ if the target is in another part or negative). logits of a float dtype; targets
/// i32 [rows]; statistics f32, contiguous, [rows, 3]. Throws RuntimeFault for a target outside the vocabulary.
void vocab_statistics(Workers& workers, const VocabPart& part, const Matrix& logits, const Matrix& targets,
                      const Matrix& statistics);

/// losses[r] = log Σ_j exp(logits[r, j]) − logits[r, targets[r]] over the whole vocabulary, 0 for a negative target.
/// `statistics`, f32, contiguous, [parts, rows, 3], holds the statistics of all parts. They are combined in order, so
/// that every rank gets the same losses. With grad_scale (f32 [1], else null), logits become (softmax −
/// onehot)·grad_scale, and 0 in ignored rows and in the padding; without it they aren't read. Throws RuntimeFault for a
/// target outside the vocabulary.
void vocab_cross_entropy(Workers& workers, const VocabPart& part, std::int64_t parts, const Matrix& logits,
                         const Matrix& targets, const Matrix& statistics, const Matrix& losses,
                         const Matrix* grad_scale);

}  // namespace weft::cpu
