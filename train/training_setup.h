// The set-up of a training run: its inputs, measurements for it, the program with its parameters, and its held-out
// data.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "ops/lower.h"
#include "ops/sharding.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/program/program.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/checkpoint/parameter_state.h"
#include "train/config/resolved_run.h"
#include "train/data/batches.h"
#include "train/measure/bf16_products.h"
#include "train/run/routing_file.h"
#include "train/run/run_devices.h"
#include "train/run/run_inputs.h"

namespace weft::train {

/// The set-up of one rank, which lives as long as the run. Not movable, since its parts refer to one another.
struct TrainingSetup {
  TrainingSetup(comm::World& of, bool with_console) : world(of), speaks(with_console) {}
  TrainingSetup(const TrainingSetup&) = delete;
  TrainingSetup& operator=(const TrainingSetup&) = delete;

  comm::World& world;
  const bool speaks;  // rank 0 shows its progress on the console
  const std::chrono::steady_clock::time_point begun_at = std::chrono::steady_clock::now();
  RunInputs inputs;
  std::optional<Bf16Choice> bf16;  // null: nothing multiplies bf16 on the CPU
  ResolvedRun run;                 // with that choice
  graph::Coordinates at;
  std::vector<ops::ParameterSpec> specs;
  std::vector<ops::ParameterShard> shards;            // of specs
  std::shared_ptr<const execute::TunedGemms> tuned;   // null: the default methods
  ops::ModelConfig sample_model;                      // with the caches that a sample needs
  text::TokenizerPointer sample_tokenizer = nullptr;  // null: no sample
  std::vector<std::int32_t> sample_prompt;
  std::int64_t sample_prefill = 0;   // 0: no sample
  std::int64_t resident_before = 0;  // bytes of the process when the making of the program began
  std::unique_ptr<execute::Program> program;
  double planning_ms = 0;
  RunDevices devices;
  std::optional<BatchPlan> batches;       // of the training data
  RoutingInfo routing;                    // of a run that records or replays its choices of experts
  std::unique_ptr<RoutingFile> replayed;  // whose choices rank 0 gives to all ranks
  std::unique_ptr<EvalBatches> held_out;

  const RunConfig& config() const { return run.config; }
  /// Tokens of training sequences that were read once `steps_done` steps are, those of a resumed run included.
  std::uint64_t tokens_seen(std::int64_t steps_done) const;
  /// The number of the first sequence to read: in a resumed run, the first one after the tokens seen.
  std::uint64_t first_sequence() const;
  /// The program's arrays of parameters and optimizer state.
  std::vector<ParameterState> parameters() const;
};

/// Reads the data, tunes if configured, lowers and plans the graphs, makes or loads the parameters. `make_executor`
/// replaces the executor of the configuration's device. Collective over the world. Throws UserError on data or
/// checkpoints that don't fit or differ among ranks.
std::unique_ptr<TrainingSetup> set_up_training(comm::World& world, const ResolvedRun& run,
                                               const execute::MakeExecutor& make_executor = nullptr,
                                               bool speaks = false);

/// Length of the text that a trained model writes at the end.
inline constexpr std::int64_t kSampleTokens = 240;

/// With eval_sequences of −1: times a batch and decides how many held-out sequences evaluations take, all of them (0)
/// if they are quick. Returns a sentence for a person if they aren't all; "" otherwise. Collective over the world.
std::string choose_held_out(TrainingSetup& setup);

}  // namespace weft::train
