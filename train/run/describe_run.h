// The description of a run: model, batch, ranks, data, plans and memory, as text, as JSON, and as the first records of
// its log.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/text/text_table.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/program/program.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/config/config.h"
#include "train/data/token_source.h"
#include "train/measure/bf16_products.h"
#include "train/run/run_devices.h"

namespace weft::train {

/// The inputs of a description; the references must outlive it.
struct RunDescription {
  const RunConfig& config;
  const TokenSource& source;
  const execute::Program& program;
  double planning_ms = 0;  // of all graphs: ordering, memory, waits, checking, agreeing
  std::string world;       // "local" or "mpi"
  const RunDevices& devices;
  const execute::TunedGemms* tuned = nullptr;
  std::optional<Bf16Choice> bf16 = {};
};

/// All facts, then tables_of(run), at most `width` columns wide if there is a width.
StyledText describe_run(const RunDescription& run, std::optional<std::size_t> width = std::nullopt);

/// Five lines, for the console of a run that begins.
StyledText describe_run_briefly(const RunDescription& run, std::optional<std::size_t> width = std::nullopt);

/// Tables of plans, memory and bytes sent.
std::array<TextTable, 3> tables_of(const RunDescription& run);

/// Notes on the run's files, and on sums that differ from another run's in rounding.
std::vector<std::string> notes_of(const RunDescription& run);

/// One JSON object: model, parameters, dtype, ranks, grid, device,
/// devices [{name, ranks}], communicator, threads, policy, gemm_tuning (a fingerprint or null), bf16_products (fp32,
/// pairs, amx, or null where nothing multiplies bf16 on CPUs), kernels (the level of the CPU's instructions),
/// summation_note (see summation_note(); mostly ""),
/// train_tokens, held_out_tokens, planning_ms, plans {name: {tasks, edges, collectives, network_bytes, scratch_bytes,
/// sum_of_tensor_bytes, fingerprint}}, communication [{part, group, kind, count, sent_bytes}] and memory_bytes {role:
/// bytes, scratch, checkpoint_snapshot, total}, sizes of rank 0.
std::string describe_run_json(const RunDescription& run);

/// Logs the description of a run; rank 0 writes the records that are the same on all ranks. Collective over the world.
void log_run(comm::World& world, const RunDescription& run);

}  // namespace weft::train
