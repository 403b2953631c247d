// The linear layer y = x·Wᵀ + b and its adjoint.
#pragma once

#include "ops/lowering.h"

namespace weft {

/// x [rows, in], weight [out, in], bias [out] or null → [rows, out]. Tasks: gemm; backward: gemm_dx, gemm_dw,
/// bias_grad. The input's gradient comes first in program order: it is what the rest of the backward pass waits for.
Value linear(Lowering& low, Value x, Parameter& weight, Parameter* bias);

}  // namespace weft
