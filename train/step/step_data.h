// What the steps of a resolved configuration read: their shares of the batches, their order, and the targets that
// count.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/grid.h"
#include "train/config/config.h"
#include "train/data/batches.h"

namespace weft::train {

/// A rank's share of the batches; ranks that differ only in x and y read the same.
BatchShare share_of(const RunConfig& config, const graph::Coordinates& at);

/// The order in which a run reads its training tokens, which `cut` tells unless sequences are of whole documents.
/// Throws UserError if there are fewer than a sequence takes.
BatchPlan batch_plan(const RunConfig& config, const TokenStream& tokens, BatchPlan::Cut cut);

/// The held-out tokens, as the configuration cuts them.
EvalBatches eval_batches(const RunConfig& config, const TokenStream& held_out, const BatchShare& share);

/// The targets that a configuration's Goldfish loss drops.
std::optional<GoldfishMask> goldfish_mask(const RunConfig& config);

/// Steps in which a configuration's epochs read the data, at least one; of a run that has done `first_step` steps of
/// any size and goes on with sequence `first_sequence`, those included.
std::int64_t steps_of_epochs(const RunConfig& config, const BatchPlan& plan, std::int64_t first_step = 0,
                             std::uint64_t first_sequence = 0);

}  // namespace weft::train
