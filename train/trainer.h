// One rank's training run: from a resolved configuration to a trained model, its metrics, traces and checkpoints.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "ops/lower.h"
#include "ops/sharding.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/program.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "runtime/execute/watchdog.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint/parameter_state.h"
#include "train/config/config.h"
#include "train/data/batches.h"
#include "train/data/token_source.h"
#include "train/describe_run.h"
#include "train/measure/bf16_products.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/run_devices.h"
#include "train/run_inputs.h"
#include "train/stop_votes.h"

namespace weft {

/// What a run ends with.
struct TrainResult {
  std::int64_t first_step = 0, steps_done = 0;  // steps [first_step, steps_done) ran
  double first_loss = 0, last_loss = 0;         // of the first and the last step
  /// Before the first step, and the latest; none where a signal or the time limit ended the evaluation.
  std::optional<double> first_val_loss, val_loss;
  std::int64_t evaluated_step = 0;                                         // steps done at the latest
  double tokens_per_s = 0;                                                 // median over the steps
  double step_ms = 0;                                                      // median
  double exposed_comm_ms = 0, communication_ms = 0, overlap_fraction = 0;  // means over the traced steps
  std::uint64_t peak_memory_bytes = 0;
  RunDevices devices = {};                // that the ranks were on, and what moved their collectives
  std::uint64_t device_memory_bytes = 0;  // of the GPU that the rank shares with others of its process; 0: none
  double first_step_seconds = 0;          // from the making of the Trainer to the end of its first step
  double seconds = 0;                     // of training, evaluation and saving included
  bool stopped_by_signal = false, stopped_by_time = false;
  std::string sample;                        // text that the model wrote, for byte-level models
  std::vector<std::filesystem::path> files;  // of the run, for a person to look at
};

/// Runs on each rank in the same way, as an MPI program does; rank 0 writes the files and the console.
///
///   Trainer trainer(world, config, Trainer::Console::progress);
///   const TrainResult result = trainer.run();
class Trainer {
 public:
  enum class Console : std::uint8_t { progress, silent };

  /// Reads the data, lowers and plans the graphs, makes or loads the parameters. Collective over the world.
  /// Throws UserError on data or checkpoints that don't fit or differ among ranks, before anything is written.
  /// `make_executor`: in the place of what the configuration's device means.
  Trainer(World& world, const RunConfig& config, Console console, const MakeExecutor& make_executor = nullptr);
  ~Trainer();

  /// What would run; valid as long as the trainer.
  RunDescription description() const;

  /// What is done with files of an earlier run in the run folder.
  enum class OldFiles : std::uint8_t { kept, removed };

  /// `log` gets its file when the run folder is made.
  TrainResult run(OldFiles old_files = OldFiles::kept, RunLog* log = nullptr);

  const Program& program() const { return *program_; }

 private:
  void initialize();
  void load_step(std::int64_t step);
  struct StartedStep {
    std::int64_t step = 0;
    double lr = 0;
  };
  /// With the inputs of the step and this rank's vote on whether it is to be the last.
  bool start(const StartedStep& started, const StopReasons& wants_stop);
  /// Of the step that was just finished.
  StepMetrics read_metrics(const StartedStep& of) const;
  /// Whether something has to be done behind the step before another may be started.
  bool is_due_after(std::int64_t step) const;
  /// The configuration as files of the run name it: with the run's own copy of the tuned products, and what multiplies
  /// bf16 if there was a choice.
  RunConfig recorded_config() const;
  /// For runs beside this one.
  void keep_pairs_gain();
  CheckpointInfo checkpoint_info(std::int64_t steps_done) const;
  std::vector<ParameterState> checkpoint_arrays() const;
  void expect_space() const;
  void save(std::int64_t steps_done, bool last);
  void report_checkpoint();
  void expect_finite(const StepMetrics& metrics);
  /// A launcher that ends a job because a rank was lost asks the others to stop and kills them a second later: time
  /// enough to say which collective the lost rank is missing from.
  std::unique_ptr<Watchdog> report_when_stopped() const;
  void write_traces(TrainResult& result);
  std::string sample();
  std::vector<MutableParameterState> parameter_states() const;
  /// Of processes other than rank 0's, where they see the run folder.
  void open_other_logs(RunLog& log) const;
  /// On rank 0, to the console and to the log.
  void say(LogTopic topic, const std::string& text);

  World& world_;
  const std::chrono::steady_clock::time_point made_at_;
  const RunInputs inputs_;
  const std::optional<Bf16Choice> bf16_;  // null: nothing multiplies bf16 on the CPU
  const RunConfig config_;                // with that choice
  const Console console_;
  const Coordinates at_;
  const std::vector<ParameterSpec> specs_;
  const std::vector<ParameterShard> shards_;
  const std::shared_ptr<const TunedGemms> tuned_;  // null: the default methods
  std::unique_ptr<Program> program_;
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<EvalBatches> held_out_;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<CheckpointWriter> checkpoints_;
  ModelConfig sample_model_;         // with the caches that a sample needs
  std::int64_t sample_prefill_ = 0;  // 0: no sample, the model isn't byte-level
  std::filesystem::path last_checkpoint_;
  double planning_ms_ = 0;
  RunDevices devices_;
};

}  // namespace weft
