// The tasks after the backward pass: reduction of gradients over z and data, global-norm clipping, AdamW.
#pragma once

#include <vector>

#include "ops/lower.h"
#include "ops/lowering.h"

namespace weft::ops {

/// A parameter with its gradient summed over all ranks: the flat fp32 elements that the rank updates.
struct ReducedGradient {
  Parameter* parameter = nullptr;
  graph::TensorId tensor;
  bool zero1 = false;  // sharded over data
};

/// Arranges that each gradient, once complete in the last micro-batch, is summed over z and data while the backward
/// pass goes on. Matrices are reduce-scattered over z and vectors all-reduced; both are then reduced over data.
/// `reduced` gets the parameters in order of completion and must live as long as the tape.
void reduce_gradients_as_they_complete(Lowering& low, const StepConfig& step, std::vector<ReducedGradient>& reduced);

/// Emits the partial norm of each gradient in order of completion, the clip factor, then an AdamW task for each
/// parameter in forward order: the weights that the next step needs first are updated first. With ZeRO-1 an all-gather
/// over data follows. The partial norms come after the whole backward pass in program order, because each waits for its
/// gradient's reduction; a policy may run them as gradients arrive.
void clip_and_update(Lowering& low, const StepConfig& step, const std::vector<ReducedGradient>& reduced,
                     graph::TensorId metrics);

}  // namespace weft::ops
