// The output of a training run: its result, and rank 0's console and files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "train/progress.h"
#include "train/run/expert_load.h"
#include "train/run/metrics.h"
#include "train/run/run_devices.h"
#include "train/run/tensorboard_file.h"
#include "train/training_setup.h"

namespace weft::train {

/// The result of a run.
struct TrainResult {
  std::int64_t first_step = 0, steps_done = 0;  // steps [first_step, steps_done) ran
  std::int64_t steps = 0;                       // to be done, of the run
  double first_loss = 0, last_loss = 0;         // of the first and the last step; NaN if it learnt nothing
  /// Held-out loss before the first step, and the latest; nullopt if a signal or the time limit ended the evaluation.
  std::optional<double> first_val_loss, val_loss;
  std::int64_t evaluated_step = 0;                                         // steps done at the latest
  double tokens_per_s = 0;                                                 // median over the steps
  double step_ms = 0;                                                      // median
  double exposed_comm_ms = 0, communication_ms = 0, overlap_fraction = 0;  // means over the traced steps
  std::uint64_t peak_memory_bytes = 0;
  /// Of all ranks of this process: the plans' memory, and the growth of the resident set to its peak since just before
  /// the program was made.
  std::int64_t planned_memory_bytes = 0, program_memory_bytes = 0;
  RunDevices devices = {};                // the ranks' devices, and the transport of their collectives
  std::uint64_t device_memory_bytes = 0;  // of the GPU that the rank shares with others of its process; 0: none
  double first_step_seconds = 0;          // from the begin of its setup to the end of its first step
  double seconds = 0;                     // of training, evaluation and saving included
  bool stopped_by_signal = false, stopped_by_time = false;
  ExpertLoad experts = {};                   // of its steps; without layers where the model has no experts
  std::string sample;                        // text that the model wrote; "": it wrote none
  std::vector<std::filesystem::path> files;  // of the run, for a person to look at
};

/// Of the step that the program has just finished.
StepMetrics metrics_of_step(const TrainingSetup& setup, std::int64_t step, double lr);

/// Made on every rank; only rank 0's prints and writes. `setup` must outlive it.
class TrainingReport {
 public:
  explicit TrainingReport(const TrainingSetup& setup) : setup_(setup) {}

  /// Makes the run folder and its first files: configuration, tuned products, drawings of the graph. `log` may be null.
  /// Collective over the world.
  void open(bool removes_old, RunLog* log, TrainResult& result);
  /// Prints a line to the console.
  void show(const std::string& text);
  /// Prints a line to the console and the log.
  void say(LogTopic topic, const std::string& text);
  /// The metrics of the next step; `seconds` since the first one began.
  void step(const StepMetrics& metrics, double seconds);
  /// Of the steps since the last line of its file.
  void experts(const ExpertLoad& load);
  /// Before each batch of an evaluation.
  void evaluating(std::int64_t done, std::int64_t batches);
  /// Shows a text of the model as it is after so many steps. Collective over the world.
  void sample_after(std::int64_t steps);
  /// Writes traces and their summary, a sample and measurements of the machine. Collective over the world.
  void close(TrainResult& result);

 private:
  void make_files(bool removes_old, RunLog* log, TrainResult& result);
  void make_metrics_files(TrainResult& result);
  void open_other_logs(RunLog& log) const;
  void keep_pairs_gain();
  void write_traces(TrainResult& result);
  bool samples() const;  // whether this rank takes part
  std::string sample();

  const TrainingSetup& setup_;
  std::vector<std::unique_ptr<MetricsFile>> metrics_files_;
  std::unique_ptr<MetricsFile> experts_file_;
  std::unique_ptr<TensorBoardFile> tensorboard_;
  std::unique_ptr<Progress> progress_;
  std::optional<LoggedSteps> logged_;  // of rank 0's log.txt
};

}  // namespace weft::train
