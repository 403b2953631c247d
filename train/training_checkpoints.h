// The checkpoints that a training run writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint_writer.h"
#include "train/training_setup.h"

namespace weft::train {

/// The configuration as files of the run name it: with the run's own copy of the tuned products, and what multiplies
/// bf16 if there was a choice.
RunConfig recorded_config(const TrainingSetup& setup);

class TrainingCheckpoints {
 public:
  /// `setup` has to outlive it; `show` is told of each checkpoint that is complete.
  TrainingCheckpoints(const TrainingSetup& setup, std::function<void(const std::string& text)> show);

  /// Throws UserError where the first one wouldn't fit on the disk.
  void expect_space();
  /// Of the step that every rank is through; the last one is complete when this returns. Collective over the world.
  void save(std::int64_t steps_done, bool last);
  /// Looks whether one that was written beside the steps is complete.
  void report();
  /// The newest that is complete; empty: none.
  const std::filesystem::path& newest() const { return newest_; }

 private:
  CheckpointInfo info(std::int64_t steps_done) const;
  std::vector<ParameterState> arrays() const;

  const TrainingSetup& setup_;
  const std::function<void(const std::string& text)> show_;
  CheckpointWriter writer_;
  std::filesystem::path newest_;
};

}  // namespace weft::train
