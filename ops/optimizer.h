// What follows the backward pass: reduction of gradients over data ranks, global-norm clipping, AdamW.
#pragma once

#include "ops/lower.h"
#include "ops/lowering.h"

namespace weft {

/// All-reduces `count` fp32 elements at the head of `tensor` over the data ranks, in place; nothing for one rank.
void all_reduce_data(Lowering& low, std::string_view what, TensorId tensor, std::int64_t count,
                     std::int64_t data_ranks);

/// Arranges that each gradient, once complete in the last micro-batch, is summed over the data ranks and its sum of
/// squares taken, so that both run while the backward pass goes on.
void reduce_gradients_as_they_complete(Lowering& low, const StepConfig& step);

/// The clip factor from all partial norms, then one AdamW task a parameter in forward order: the weights that the next
/// step needs first are updated first.
void clip_and_update(Lowering& low, const StepConfig& step, TensorId metrics);

}  // namespace weft
