// The steps of a training run, with its evaluations, its checkpoints, and the votes that end it early.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "train/data/batches.h"
#include "train/evaluation.h"
#include "train/time_limit.h"
#include "train/training_checkpoints.h"
#include "train/training_report.h"
#include "train/training_setup.h"

namespace weft::train {

class TrainingLoop {
 public:
  /// All four must outlive this object; `result` gets losses, measurements of the steps and the reason for the end.
  TrainingLoop(TrainingSetup& setup, TrainingCheckpoints& checkpoints, TrainingReport& report, TrainResult& result);

  /// From the evaluation before the first step to the last checkpoint. Collective over the world. Throws RuntimeFault
  /// when the loss isn't finite.
  void run();

 private:
  struct StartedStep {
    std::int64_t step = 0;
    double lr = 0;
  };
  void run_steps();
  void load(std::int64_t step);
  /// The share of the learning rate's decay that is over by the time limit. All ranks have rank 0's.
  double decay_share(std::int64_t step);
  /// Starts a step with its inputs and this rank's vote on whether it is the last.
  bool start(const StartedStep& started);
  /// `newest`: no later step was started.
  void finish(const StartedStep& of, bool newest);
  /// nullopt if the evaluation ended early.
  std::optional<double> held_out_loss();
  /// Whether an evaluation, a checkpoint or the like must follow the step before the next starts.
  bool is_due_after(std::int64_t step) const;
  /// Whether the newest step is the last: at the end of the run, or by a vote of this or the previous step.
  bool is_last(std::int64_t newest) const;
  void expect_finite(const StepMetrics& metrics);
  /// Whether the loss is the lowest until now; remembers it.
  bool is_best(std::optional<double> val_loss);

  TrainingSetup& setup_;
  const RunConfig& config_;
  TrainingCheckpoints& checkpoints_;
  TrainingReport& report_;
  TrainResult& result_;
  StopReasons stop_;  // on which the ranks have agreed
  TimeLimit limit_;
  std::chrono::steady_clock::time_point begun_at_, training_begun_at_;
  std::unique_ptr<BatchLoader> loader_;
  std::optional<double> best_loss_;  // of a run that keeps the best checkpoint
  std::vector<double> step_ms_;
};

}  // namespace weft::train
