// The description of a run: model, batch, ranks, data, plans and memory, as text, as JSON, and as the first records of
// its log.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/printable.h"
#include "train/training_setup.h"

namespace weft::train {

/// All facts, then tables of plans, memory and bytes sent, at most `width` columns wide if there is a width.
StyledText describe_run(const TrainingSetup& run, std::optional<std::size_t> width = std::nullopt);

/// Five lines, for the console of a run that begins.
StyledText describe_run_briefly(const TrainingSetup& run, std::optional<std::size_t> width = std::nullopt);

/// One JSON object: model, parameters, dtype, ranks, grid, device,
/// devices [{name, ranks}], communicator, threads, policy, gemm_tuning (a fingerprint or null), bf16_products (fp32,
/// pairs, amx, or null where nothing multiplies bf16 on CPUs), kernels (the level of the CPU's instructions),
/// summation_note (see summation_note(); mostly ""),
/// train_tokens, held_out_tokens, planning_ms, plans {name: {tasks, edges, collectives, network_bytes, scratch_bytes,
/// sum_of_tensor_bytes, fingerprint}}, communication [{part, group, kind, count, sent_bytes}] and memory_bytes {role:
/// bytes, scratch, checkpoint_snapshot, total}, sizes of rank 0.
std::string describe_run_json(const TrainingSetup& run);

/// Logs the description of a run; rank 0 writes the records that are the same on all ranks. Collective over the world.
void log_run(const TrainingSetup& run);

}  // namespace weft::train
