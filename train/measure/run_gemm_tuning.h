// The tuned matrix products and attention of a run: a file's, its checkpoint's, or tuned at its start; and how they are
// tuned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status_line.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// The treatment of a checkpoint's table that was measured on another machine, whose bits can't be repeated here:
/// refuse it, or use the default methods.
enum class StoredTuning : std::uint8_t { required, if_it_fits };

/// The table of a setting: from a file, from `checkpoint` if it has one, or, for trials, the result of `tune`, which
/// rank 0 calls while the others wait. Null: no table. Rank 0 reads it for all ranks. Collective over the world. Throws
/// UserError like parse_gemm_tuning(), and for trials if `tune` is null.
std::shared_ptr<const execute::TunedGemms> gemm_tuning_of_run(
    comm::World& world, const TuningSetting& setting, const std::optional<std::filesystem::path>& checkpoint,
    StoredTuning stored, const std::function<execute::TunedGemms()>& tune = nullptr);

/// A product of a run, or an attention, and how often a training step and an evaluation compute it.
template <class Problem>
struct UseInRun {
  Problem problem;
  std::int64_t step_tasks = 0, evaluation_tasks = 0;
};
using RunProduct = UseInRun<execute::GemmProblem>;
using RunAttention = UseInRun<execute::AttentionProblem>;

/// The distinct products of a run: first those of training steps.
std::vector<RunProduct> products_of_run(const ResolvedRun& run);
/// The same of attention that has a choice of engines: on GPUs.
std::vector<RunAttention> attention_of_run(const ResolvedRun& run);

/// Tries products on the device of a filled-in configuration, with its threads. `rounds`: number of rounds that compare
/// the best methods. `cold`: see GemmTrialOptions::cold_gpu. Throws UserError if the device is missing, and for `cold`
/// on a CPU.
///
///   const execute::TryGemm trial = gemm_trials(run.config, 11);
///   for (const RunProduct& product : products_of_run(run)) trial(product.problem);
execute::TryGemm gemm_trials(const RunConfig& config, int rounds, bool cold = false);

/// Tries the engines of attention, within the configuration's limits, on its GPU.
execute::TryAttention attention_trials(const RunConfig& config, int rounds, bool cold = false);

/// The machine for which trials on the configuration's device are valid.
execute::TuningMachine tuning_machine(const RunConfig& config);

/// The methods of a run's products and attention for `--gemm-tuning auto`, with the cache beside its run folder. Called
/// on one rank while the others wait.
execute::TunedGemms tune_for_run(const ResolvedRun& run, const TellStatus& tell);

}  // namespace weft::train
