// Checks that a run can fit the machine, before anything is planned or allocated.
#pragma once

#include <cstdint>

#include "train/config/config.h"

namespace weft::train {

/// Least bytes of host memory that a rank of the resolved `config` needs. On a GPU: a copy of its parameters, for the
/// upload, and of their part of a checkpoint if one is read or written.
double least_host_bytes(const RunConfig& config);

/// Least bytes that a rank of the resolved `config` needs on its device: of its part of the model parameters, gradients
/// and AdamW's moments in fp32 (16 bytes a parameter; bf16 parameters with their fp32 masters take no less), moments
/// and masters divided by the data ranks under ZeRO-1, and its part of the input of each block for one micro-batch.
double least_training_bytes(const RunConfig& config);

/// Throws UserError if `ranks` ranks in one process need more than `memory_bytes`, the machine's memory. The executor
/// checks the memory of a GPU (runtime/execute/device/device_memory.h).
void check_memory(const RunConfig& config, std::int64_t ranks, double memory_bytes);

/// Bytes of memory of this machine.
double machine_memory_bytes();

}  // namespace weft::train
