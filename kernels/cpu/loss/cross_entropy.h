// Softmax cross-entropy, in place, and the sum of its losses.
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

}  // namespace weft::cpu
