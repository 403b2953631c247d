// RMSNorm of queries and keys, head by head or over the columns of all heads, and its adjoint.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/lowering.h"

namespace weft::ops {

/// Queries, keys and values of the rank's own heads: windows of one tensor, or of one tensor for q and another for k |
/// v.
struct Heads {
  graph::View q, k, v;
};

/// q | k of the rank's heads in one new tensor, and the values of `heads`.
Heads beside(Lowering& low, std::string_view name, const Heads& heads, std::int64_t rows);

/// What a norm's adjoint needs: the weight of its columns, and each row's factor.
struct SavedNorm {
  Parameter* weight = nullptr;
  graph::TensorId used_weight, rstd;
};

struct QueryKeyNorms {
  SavedNorm q, k;
  Heads normed;  // beside the queries and keys that the norms have read
};

/// Of heads: every head by the same weight. Of columns: over the columns of all heads, of which a rank of x and y has
/// some. These ranks exchange a number a row. A key head that ranks of x share counts on each of them, which changes
/// neither the mean nor its gradient, because they share every head alike.
QueryKeyNorms normalize(Lowering& low, const Heads& in, std::int64_t rows, std::int64_t layer);

/// The adjoint: `dnormed` are the gradients of normalised queries and keys, `grad` the gradients of `in`.
void differentiate(Lowering& low, const QueryKeyNorms& norms, const Heads& in, const Heads& dnormed, const Heads& grad,
                   std::int64_t rows);

}  // namespace weft::ops
