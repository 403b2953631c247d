// Elementwise operations of the feed-forward layers and of residual branches, with their adjoints.
#pragma once

#include "ops/lowering.h"

namespace weft::ops {

/// tanh-GELU of x [rows, cols].
Value gelu(Lowering& low, Value x);

/// silu(gate)·up of x [rows, 2·cols] = [gate | up] → [rows, cols].
Value swiglu(Lowering& low, Value x);

/// The position of a dropout in the run, which determines its random numbers. `row_offset` is the first row of this
/// micro-batch among the rank's rows of the step.
struct DropoutSite {
  float p = 0.0F;
  std::uint32_t site = 0;
  std::int64_t row_offset = 0;
};

/// x with elements dropped; x itself if p is 0.
Value dropout(Lowering& low, Value x, const DropoutSite& where);

/// residual + dropout(branch). The gradient of the sum is also the residual's gradient, without a copy.
Value add_residual(Lowering& low, Value residual, Value branch, const DropoutSite& where);

}  // namespace weft::ops
