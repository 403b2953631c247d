// What a resolved configuration makes of one training step: its shapes, its part of the batch, its arithmetic.
#pragma once

#include <optional>

#include "base/packed_unit.h"
#include "graph/grid.h"
#include "ops/lower.h"
#include "train/config/config.h"
#include "train/data/batches.h"

namespace weft::train {

/// The shapes of a training step of this configuration (resolved).
ops::StepConfig step_config(const RunConfig& config);

/// A rank's part of the batches: ranks that differ in x and y alone read the same.
BatchShare share_of(const RunConfig& config, const graph::Coordinates& at);

/// Whether the CPU's kernels have bf16 to multiply.
bool computes_in_bf16(const RunConfig& config);

/// What a run of a resolved configuration would choose without checkpoint and kept measurements. Null on GPUs and in
/// fp32.
std::optional<PackedUnit> bf16_unit_of(const RunConfig& config);

}  // namespace weft::train
