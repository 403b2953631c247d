// Softmax cross-entropy on the logits, fused with its gradient, and the sums for metrics.
#pragma once

#include "ops/lowering.h"

namespace weft::ops {

/// Emits the loss of logits [rows, vocab] against `targets` (i32 [rows], negative: ignored) and adds its sum and count
/// to `sums` (f32 [2]; overwritten if `first`). With `gradient`, the logits are replaced by their gradient, scaled by
/// scalars[3], and backward() can follow.
void cross_entropy(Lowering& low, Value logits, graph::View targets, graph::View sums, bool first, bool gradient);

}  // namespace weft::ops
