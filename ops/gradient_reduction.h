// The user's choice of when gradients are summed over z.
#pragma once

#include <cstdint>

namespace weft::ops {

/// When the gradients of parameters that are cut over z are reduce-scattered over z. Parameters that aren't cut, and
/// the sum over data, don't depend on it: they are summed once a step.
///
/// `step`: micro-batches are added first, in the rank's whole block, whose fp32 gradient stays for the step.
/// `micro_batch`: ranks are added first, and micro-batches in the rank's shard. The whole block's gradient lives in one
/// micro-batch, and each sends it. Floats are added in another order, so results differ in rounding.
enum class GradientReduction : std::uint8_t { step, micro_batch };

}  // namespace weft::ops
