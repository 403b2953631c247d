// What follows the backward pass: reduction of gradients over data ranks, global-norm clipping, AdamW.
#pragma once

#include <string_view>
#include <vector>

#include "ops/lower.h"
#include "ops/lowering.h"

namespace weft {

/// All-reduces `count` fp32 elements at the head of `tensor` over the data ranks, in place; nothing for one rank.
void all_reduce_data(Lowering& low, std::string_view what, TensorId tensor, std::int64_t count,
                     std::int64_t data_ranks);

/// Arranges that each gradient, once complete in the last micro-batch, is summed over the data ranks while the backward
/// pass goes on; `completed` gets the parameters in that order and must live as long as the tape.
void reduce_gradients_as_they_complete(Lowering& low, const StepConfig& step, std::vector<Parameter*>& completed);

/// The partial norm of each gradient in order of completion, the clip factor, then one AdamW task a parameter in
/// forward order: the weights that the next step needs first are updated first. The partial norms stand behind the
/// whole backward pass in program order, because each waits for its gradient's reduction; a policy may run them as
/// gradients arrive.
void clip_and_update(Lowering& low, const StepConfig& step, const std::vector<Parameter*>& completed, TensorId metrics);

}  // namespace weft
