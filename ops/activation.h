// Elementwise operations of the feed-forward part and of residual branches, with their adjoints.
#pragma once

#include "ops/lowering.h"

namespace weft::ops {

/// tanh-GELU of x [rows, cols].
Value gelu(Lowering& low, Value x);

/// silu(gate)·up of x [rows, 2·cols] = [gate | up] → [rows, cols].
Value swiglu(Lowering& low, Value x);

/// Dropout's place in the run: which numbers it draws. `row_offset` is the first row of this micro-batch within the
/// rank's rows of the step.
struct DropoutSite {
  float p = 0.0F;
  std::uint32_t site = 0;
  std::int64_t row_offset = 0;
};

/// x with elements dropped; x itself when p is 0.
Value dropout(Lowering& low, Value x, const DropoutSite& where);

/// residual + dropout(branch). The residual's gradient is the sum's own, without a copy.
Value add_residual(Lowering& low, Value residual, Value branch, const DropoutSite& where);

}  // namespace weft::ops
