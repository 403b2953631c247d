// The linear layer y = x·Wᵀ + b on a grid, and its adjoint.
#pragma once

#include <vector>

#include "ops/lowering.h"

namespace weft::ops {

/// Consecutive output features of a layer. Summed: every rank of the group gets all of them. Scattered: each gets its
/// own part of the sum, [rows, features/ranks].
struct LinearOutput {
  std::int64_t features = 0;  // of the rank's block of W
  bool scattered = false;
};

/// x [rows, in/A], weight [out/B, in/A], bias [out/B] or null → one value an output: O = Σ over A of x·Wᵀ, + b.
/// A, the axis that cuts the input, is x and B is y in a normal layer; a transposed one (see Sharding) swaps them.
///
///   forward   all-gather W over z → gemm → all-reduce O over A (scattered: reduce-scatter)
///   backward  gemm_dx → all-reduce dx over B;  gemm_dw, bias_grad: summed over z and data once complete
///
/// `gathered_input`: x is one part [rows, in/(A·B)] of what the ranks of B hold together; it is all-gathered over B,
/// and its gradient reduce-scattered. The input's gradient comes before the weight's in program order: it is what the
/// rest of the backward pass waits for. After Agarwal et al.'s 3D multiplication as AxoNN uses it (arXiv 2502.08145).
std::vector<Value> linear(Lowering& low, Value x, Parameter& weight, Parameter* bias,
                          const std::vector<LinearOutput>& outputs, bool gathered_input = false);

/// The same with one output, summed.
Value linear(Lowering& low, Value x, Parameter& weight, Parameter* bias);

}  // namespace weft::ops
