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
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= cols; i += 2 * kLanes) {
    const Pair value = load_pair(x + i), d = load_pair(dy + i), w = load_pair(weight + i);
    step(i, 0, value.first, d.first, w.first);
    step(i + kLanes, 1, value.second, d.second, w.second);
  }
  const std::int64_t rest = i;
  for_vectors(cols - rest, [&](std::int64_t j, auto lanes) {
    step(rest + j, 0, lanes.load(x + rest + j), lanes.load(dy + rest + j), lanes.load(weight + rest + j));
  });
  return sum(totals[0] + totals[1]);
}

}  // namespace weft::cpu
