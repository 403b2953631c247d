// Experts on ranks of their own (Grid::expert): a rank's experts get rows of all its neighbours' tokens, and their
// results go back.
#pragma once

#include <string_view>

#include "ops/lowering.h"

namespace weft::ops {

/// The rows that a rank's experts multiply, in the order of the experts. A rank without neighbours has its own rows, of
/// all experts. Among neighbours each one gives the `given` rows of its own tokens and holds those of its own experts:
/// at most `rows`, if all tokens choose these experts, and `expected` with equal shares.
struct HeldRows {
  std::int64_t given = 0;
  std::int64_t rows = 0, expected = 0;  // expected: 0 means all rows, always
  std::int64_t experts = 0;             // of the rank
  graph::TensorId offsets;              // i32 [experts + 1]: where each expert's rows begin
  graph::TensorId table;                // where each neighbour's rows begin; invalid without neighbours

  bool exchanged() const { return table.valid(); }
};

/// `offsets`: where the rank's own rows for each expert of the layer begin, of `tokens` tokens with `choices` experts
/// each. The neighbours tell each other.
HeldRows held_rows(Lowering& low, graph::TensorId offsets, std::int64_t tokens, std::int64_t choices);

/// Rows of the rank's own tokens [given, cols] → rows of its experts [rows, cols]; the tensor itself without
/// neighbours.
graph::TensorId give_rows(Lowering& low, std::string_view what, const HeldRows& held, graph::TensorId own);

/// The way back, which is the other one's adjoint.
graph::TensorId return_rows(Lowering& low, std::string_view what, const HeldRows& held, graph::TensorId of_experts);

}  // namespace weft::ops
