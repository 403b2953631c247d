// The training step of a resolved configuration: its shapes, its arithmetic, and the least memory that it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/packed_unit.h"
#include "ops/lower.h"
#include "train/config/config.h"

namespace weft::train {

/// The shapes of a training step of this configuration (resolved).
ops::StepConfig step_config(const RunConfig& config);

/// Whether ranks of y have a part of each norm's gradient, of their own rows (sequence-parallel).
bool sums_norms_over_y(const RunConfig& config);

/// The sentence that marks a configuration (resolved) whose gradients are added in another order than by default; ""
/// for others. It stands wherever a plan or a run is described.
std::string summation_note(const RunConfig& config);

/// Whether the CPU's kernels multiply bf16.
bool computes_in_bf16(const RunConfig& config);

/// The choice of a run of a resolved configuration without checkpoint and kept measurements. nullopt on GPUs and in
/// fp32.
std::optional<PackedUnit> bf16_unit_of(const RunConfig& config);

/// Least bytes of host memory that a rank of the resolved `config` needs. On CPUs: of its part of the model parameters,
/// gradients and AdamW's moments in fp32 (16 bytes a parameter; bf16 parameters with their fp32 masters take no less),
/// moments and masters divided by the data ranks under ZeRO-1, and its part of the input of each block for one
/// micro-batch. On a GPU: a copy of its parameters, for the upload, and of their part of a checkpoint if one is read or
/// written.
double least_host_bytes(const RunConfig& config);

/// Throws UserError if `ranks` ranks in one process need more than `memory_bytes`, the machine's memory. The executor
/// checks the memory of a GPU (runtime/execute/device/device_memory.h).
void check_memory(const RunConfig& config, std::int64_t ranks, double memory_bytes);

}  // namespace weft::train
