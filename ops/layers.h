// The layers beside linear ones and attention, with their adjoints: token (and learned position) embeddings, norms over
// the hidden vector, activations, dropout and residual branches, and the softmax cross-entropy.
#pragma once

#include "ops/lowering.h"

namespace weft::ops {

/// The positions of rows: `seq_len` of them follow each other, from the state scalar `first` on, or from 0 if it is
/// null.
struct Positions {
  std::int64_t seq_len = 1;
  const char* first = nullptr;
};

/// tokens: a view of i32 [rows] → [rows, hidden], or with sequence parallelism the rank's rows of it.
Value embedding(Lowering& low, graph::View tokens, std::int64_t rows, const Positions& positions);

/// The model family's norm of x [rows, cols], with the parameters "<name>.weight" and, for LayerNorm, "<name>.bias".
/// The adjoint's task also adds the gradient that x already has from its residual branch.
Value norm(Lowering& low, Value x, const std::string& name);

/// The weight by which a norm multiplies: the parameter, or 1 + it, as the family has it.
graph::TensorId used_weight(Lowering& low, const Parameter& weight, std::string_view norm_name);

/// The rows of a grouped product's groups (graph::RowsOfGroups), if there are more rows than these.
struct RowGroups {
  std::int64_t groups = 0, expected = 0;
  graph::TensorId offsets;
};

/// The family's activation of x: tanh-GELU of [rows, cols], or act(gate)·up of [rows, 2·cols] = [gate | up] → [rows,
/// cols], which may be of the rows of groups alone.
Value activation(Lowering& low, Value x, const RowGroups& of = {});

/// factor·x; x itself if the factor is 1.
Value scaled(Lowering& low, Value x, float factor);

/// The position of a dropout in the run, which determines its random numbers. `row_offset` is that of this
/// micro-batch's first row, among the rows of the rank's sequences of the step, of `seq_len` rows each.
struct DropoutSite {
  float p = 0.0F;
  std::uint32_t site = 0;
  std::int64_t row_offset = 0, seq_len = 1;
};

/// x with elements dropped; x itself if p is 0.
Value dropout(Lowering& low, Value x, const DropoutSite& where);

/// residual + dropout(branch). The gradient of the sum is also the residual's gradient, without a copy.
Value add_residual(Lowering& low, Value residual, Value branch, const DropoutSite& where);

/// Emits the loss of logits [rows, vocab] against `targets` (i32 [rows], negative: ignored) and adds its sum and count
/// to `sums` (f32 [2]; overwritten if `first`). With `gradient`, the logits are replaced by their gradient, scaled by
/// scalars[3], and backward() can follow.
void cross_entropy(Lowering& low, Value logits, graph::View targets, graph::View sums, bool first, bool gradient);

}  // namespace weft::ops
