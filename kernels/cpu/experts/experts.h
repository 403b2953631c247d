// Mixture of experts: routing, and rows in the order of their experts. graph/operations/experts.h defines what each
// function computes. Integers are i32; logits, weights and their gradients are f32; rows are f32 or bf16. Sums are fp32
// in a fixed order, rounded once.
#pragma once

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// Whether the weights of a row's experts add up to 1, and whether the choice is given.
struct RouteKind {
  bool normalise = false, given = false;
};

/// logits [rows, experts] → chosen, weights [rows, choices]. A NaN among the logits still gives a valid choice.
void route(Workers& workers, RouteKind kind, const Matrix& logits, const Matrix& chosen, const Matrix& weights);

/// dlogits [rows, experts] of a float dtype.
void route_backward(Workers& workers, bool normalise, const Matrix& logits, const Matrix& chosen,
                    const Matrix& dweights, const Matrix& dlogits);

/// chosen [rows, choices] → slots [rows, choices], sources [rows·choices], offsets [experts + 1].
void sort_by_expert(Workers& workers, const Matrix& chosen, const Matrix& slots, const Matrix& sources,
                    const Matrix& offsets);

/// table [ranks, ranks·experts + 1], offsets [experts + 1], those of the experts of rank `place`.
void offsets_of_rank(Workers& workers, const Matrix& table, std::int64_t place, const Matrix& offsets);
/// What is told of a choice: counts [experts], one margin, one number of flips.
struct ChoiceCounts {
  Matrix counts, margin, flips;
};
void count_choices(Workers& workers, const Matrix& logits, const Matrix& chosen, const Matrix& offsets,
                   const ChoiceCounts& told);

/// Row s of out = row sources[s] of x.
void gather_rows(Workers& workers, const Matrix& x, const Matrix& sources, const Matrix& out);

/// out [rows, cols]; without weights (null) their factors are 1.
void combine_rows(Workers& workers, const Matrix& y, const Matrix& slots, const Matrix* weights, const Matrix& out);

struct CombinedRows {
  Matrix y, slots, weights;
};
void combine_rows_backward(Workers& workers, const CombinedRows& forward, const Matrix& dout, const Matrix& dy,
                           const Matrix& dweights);

}  // namespace weft::cpu
