// The part of RMS normalisation's gradient that whole rows and heads of rows share.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// Adds one row to the column sums Σ dy·x̂ with x̂ = x·rstd, in load_pair's order of elements (see ColumnSums); returns
/// Σ dy·weight·x̂ of the row.
template <class T>
float accumulate_rms_row(std::int64_t cols, const T* x, const T* dy, const T* weight, float rstd, float* dweight) {
  Floats totals[2] = {};
  const auto step = [&](std::int64_t i, int k, Floats value, Floats d, Floats w) {
    const Floats d_normal = d * (value * rstd);
    store(dweight + i, load(dweight + i) + d_normal);
    totals[k] += d_normal * w;
  };
  for_pairs(cols, step, x, dy, weight);
  return sum(totals[0] + totals[1]);
}

}  // namespace weft::cpu
