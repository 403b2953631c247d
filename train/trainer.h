// One rank's training run: from a resolved run to a trained model, its metrics, traces and checkpoints.
#pragma once

#include <cstdint>
#include <memory>

#include "base/log.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/program/program.h"
#include "runtime/execute/watchdog.h"
#include "train/config/resolved_run.h"
#include "train/run/describe_run.h"
#include "train/training_report.h"
#include "train/training_setup.h"

namespace weft::train {

/// Runs on each rank in the same way, as an MPI program does; rank 0 writes the files and the console. It is set up
/// (training_setup.h), steps (training_loop.h) and reports (training_report.h).
///
///   Trainer trainer(world, run, Trainer::Console::progress);
///   const TrainResult result = trainer.run();
class Trainer {
 public:
  enum class Console : std::uint8_t { progress, silent };

  /// Sets the run up (see set_up_training), before anything is written.
  Trainer(comm::World& world, const ResolvedRun& run, Console console,
          const execute::MakeExecutor& make_executor = nullptr);

  /// The description of the run; valid as long as the trainer.
  RunDescription description() const;

  /// The treatment of files of an earlier run in the run folder.
  enum class OldFiles : std::uint8_t { kept, removed };

  /// `log` gets its file when the run folder is made.
  TrainResult run(OldFiles old_files = OldFiles::kept, RunLog* log = nullptr);

  const execute::Program& program() const { return *setup_->program; }

 private:
  /// A launcher that ends a job after the loss of a rank signals the other ranks and kills them a second later. In this
  /// time they report the collective in which the lost rank is missing.
  std::unique_ptr<execute::Watchdog> report_when_stopped() const;

  const Console console_;
  const std::unique_ptr<TrainingSetup> setup_;
};

}  // namespace weft::train
