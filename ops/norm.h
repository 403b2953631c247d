// LayerNorm and RMSNorm over the hidden vector, and their adjoints.
#pragma once

#include "ops/lowering.h"

namespace weft::ops {

/// The model family's norm of x [rows, cols], with the parameters "<name>.weight" and, for LayerNorm, "<name>.bias".
/// The adjoint's task also adds the gradient that x already has from its residual branch.
Value norm(Lowering& low, Value x, const std::string& name);

}  // namespace weft::ops
