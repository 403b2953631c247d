// The linear layer y = x·Wᵀ + b on a grid, and its adjoint.
#pragma once

#include <vector>

#include "ops/lowering.h"

namespace weft::ops {

/// Consecutive output features of a layer. Summed: every rank of the group gets all features. Scattered: each rank gets
/// its own part of the sum, [rows, features/ranks].
struct LinearOutput {
  std::int64_t features = 0;  // in the rank's block of W
  bool scattered = false;
};

/// x [rows, in/A], weight [out/B, in/A], bias [out/B] or null → one value for each output: O = Σ over A of x·Wᵀ, + b. A
/// is the axis that shards the input: in a normal layer A is x and B is y; a transposed layer (see Sharding) swaps
/// them.
///
///   forward   all-gather W over z → gemm → all-reduce O over A (scattered: reduce-scatter)
///   backward  gemm_dx → all-reduce dx over B;  gemm_dw, bias_grad: summed over z and data once complete
///
/// `gathered_input`: x is one part [rows, in/(A·B)] of the columns that the ranks of B hold together. It is
/// all-gathered over B, and its gradient is reduce-scattered. In program order the input's gradient comes before the
/// weight's, because the rest of the backward pass waits for it. The algorithm is Agarwal et al.'s 3D multiplication as
/// AxoNN uses it (arXiv 2502.08145).
std::vector<Value> linear(Lowering& low, Value x, Parameter& weight, Parameter* bias,
                          const std::vector<LinearOutput>& outputs, bool gathered_input = false);

/// linear() with one summed output.
Value linear(Lowering& low, Value x, Parameter& weight, Parameter* bias);

}  // namespace weft::ops
