// What follows the backward pass: reduction of gradients over z and data, global-norm clipping, AdamW.
#pragma once

#include <vector>

#include "ops/lower.h"
#include "ops/lowering.h"

namespace weft::ops {

/// A parameter with its gradient summed over all ranks: of the elements that the rank updates, flat, fp32.
struct ReducedGradient {
  Parameter* parameter = nullptr;
  graph::TensorId tensor;
  bool zero1 = false;  // cut over data
};

/// Arranges that each gradient, once complete in the last micro-batch, is summed over z and data while the backward
/// pass goes on: matrices are reduce-scattered over z, vectors all-reduced, and both then reduced over data. `reduced`
/// gets the parameters in that order and must live as long as the tape.
void reduce_gradients_as_they_complete(Lowering& low, const StepConfig& step, std::vector<ReducedGradient>& reduced);

/// The partial norm of each gradient in order of completion, the clip factor, then one AdamW task a parameter in
/// forward order: the weights that the next step needs first are updated first. With ZeRO-1 an all-gather over data
/// follows. The partial norms stand behind the whole backward pass in program order, because each waits for its
/// gradient's reduction; a policy may run them as gradients arrive.
void clip_and_update(Lowering& low, const StepConfig& step, const std::vector<ReducedGradient>& reduced,
                     graph::TensorId metrics);

}  // namespace weft::ops
