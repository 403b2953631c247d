// One rank's training run: from its set-up to a trained model, its metrics, traces and checkpoints.
#pragma once

#include "base/log.h"
#include "train/training_report.h"
#include "train/training_setup.h"

namespace weft::train {

/// Runs on each rank in the same way, as an MPI program does; rank 0 writes the files and the console. `removes_old`:
/// files of an earlier run in the run folder go first. `log` gets its file when the folder is made. Collective over the
/// world. Throws RuntimeFault when the loss isn't finite.
///
///   const std::unique_ptr<TrainingSetup> setup = set_up_training(world, run);
///   const TrainResult result = run_training(*setup);
TrainResult run_training(TrainingSetup& setup, bool removes_old = false, RunLog* log = nullptr);

}  // namespace weft::train
