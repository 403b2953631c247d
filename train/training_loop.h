// The steps of a training run, with its evaluations, its checkpoints, and the votes that end it early.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "train/data/batches.h"
#include "train/stop_votes.h"
#include "train/time_limit.h"
#include "train/training_checkpoints.h"
#include "train/training_report.h"
#include "train/training_setup.h"

namespace weft::train {

class TrainingLoop {
 public:
  /// All four have to outlive it; `result` gets losses, figures of the steps and why they ended.
  TrainingLoop(TrainingSetup& setup, TrainingCheckpoints& checkpoints, TrainingReport& report, TrainResult& result);

  /// From the evaluation before the first step to the last checkpoint. Collective over the world. Throws RuntimeFault
  /// where the loss is no number any more.
  void run();

 private:
  struct StartedStep {
    std::int64_t step = 0;
    double lr = 0;
  };
  void run_steps();
  void load(std::int64_t step);
  /// With the inputs of the step and this rank's vote on whether it is to be the last.
  bool start(const StartedStep& started);
  /// `newest`: no later step was started.
  void finish(const StartedStep& of, bool newest);
  /// Null where it was ended early.
  std::optional<double> held_out_loss();
  /// Whether something has to be done after the step before another may be started.
  bool is_due_after(std::int64_t step) const;
  /// The newest step is the last one where the run is at its end, or a vote of it or of the step before said so.
  bool is_last(std::int64_t newest) const;
  void expect_finite(const StepMetrics& metrics);

  TrainingSetup& setup_;
  const RunConfig& config_;
  TrainingCheckpoints& checkpoints_;
  TrainingReport& report_;
  TrainResult& result_;
  StopReasons stop_;  // that the ranks have agreed on
  TimeLimit limit_;
  std::chrono::steady_clock::time_point begun_at_, training_begun_at_;
  std::unique_ptr<BatchLoader> loader_;
  std::vector<double> step_ms_;
};

}  // namespace weft::train
