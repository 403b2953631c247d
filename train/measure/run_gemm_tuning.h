// The tuned matrix products of a run: a file's, its checkpoint's, or tuned at its start; and how they are tuned.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status_line.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// What to do with a checkpoint's table that was measured on another machine: its bits can't be repeated here. Refuse
/// it, or use the default methods.
enum class StoredTuning : std::uint8_t { required, if_it_fits };

/// The table that a setting comes to: a file's, that of `checkpoint` if it has one, or, in trials, what `tune` returns,
/// which rank 0 calls while the others wait. Null: none. Rank 0 reads; all ranks get the same. Collective over the
/// world. Throws UserError as parse_gemm_tuning() does, and for trials where nothing can be tuned: `tune` is null.
std::shared_ptr<const execute::TunedGemms> gemm_tuning_of_run(
    comm::World& world, const TuningSetting& setting, const std::optional<std::filesystem::path>& checkpoint,
    StoredTuning stored, const std::function<execute::TunedGemms()>& tune = nullptr);

/// The distinct products of a training step and an evaluation of a run.
std::vector<execute::GemmUse> products_of_run(const ResolvedRun& run);

/// Tries products on the device of a filled-in configuration, with its threads.
///
///   RunGemmTrials trials(run.config, 11);
///   for (const GemmUse& use : products_of_run(run)) trials.run(use.problem);
class RunGemmTrials {
 public:
  /// `rounds`: in which the best methods meet. Throws UserError where there is no such device.
  RunGemmTrials(const RunConfig& config, int rounds);
  ~RunGemmTrials();
  RunGemmTrials(const RunGemmTrials&) = delete;
  RunGemmTrials& operator=(const RunGemmTrials&) = delete;

  execute::GemmTrial run(const execute::GemmProblem& problem);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What trials on the configuration's device are good for.
execute::TuningMachine tuning_machine(const RunConfig& config);

/// `--gemm-tuning auto`: what a run's products are computed by, with the cache beside its run folder. On one rank,
/// while the others wait.
execute::TunedGemms tune_for_run(const ResolvedRun& run, const TellStatus& tell);

}  // namespace weft::train
