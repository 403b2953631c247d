// The checkpoints that a training run writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint_writer.h"
#include "train/training_setup.h"

namespace weft::train {

/// The configuration for files of the run: with the run's copy of the tuned products, and the unit that multiplies bf16
/// if there was a choice.
RunConfig recorded_config(const TrainingSetup& setup);

/// The position of a run between two steps.
struct RunPosition {
  std::int64_t steps_done = 0;
  std::optional<double> val_loss = {};  // held-out loss, if it was evaluated
  double decay_seconds = 0;             // as this rank measured them; see CheckpointInfo
};

class TrainingCheckpoints {
 public:
  /// `setup` must outlive this object; `show` gets a message about each complete checkpoint.
  TrainingCheckpoints(const TrainingSetup& setup, std::function<void(const std::string& text)> show);

  /// Throws UserError if the first checkpoint wouldn't fit on the disk.
  void expect_space();
  /// Saves the step that every rank has finished; the last checkpoint is complete on return. Collective over the world.
  void save(const RunPosition& at, bool last);
  /// The held-out loss of the best checkpoint up to the run's first step, as rank 0 sees it; nullopt if there is none.
  /// Collective over the world.
  std::optional<double> best_loss() const;
  /// Call it when the step after a save() has been started: writes what save() has left to that step.
  void step_started();
  /// Checks whether the checkpoint that is being written is complete.
  void report();
  /// The newest complete checkpoint; empty if there is none.
  const std::filesystem::path& newest() const { return newest_; }

 private:
  CheckpointInfo info(std::int64_t steps_done) const;

  const TrainingSetup& setup_;
  const std::function<void(const std::string& text)> show_;
  CheckpointWriter writer_;
  std::optional<CheckpointInfo> leaving_;  // the state of it is on its way to the host
  std::filesystem::path newest_;
};

}  // namespace weft::train
