// Loads a run's checkpoints with all checks.
#pragma once

#include <cstdint>
#include <filesystem>

#include "tests/train/model_arrays.h"
#include "train/checkpoint/checkpoint.h"

namespace weft::testing {

/// Loads the latest complete checkpoint with all checks and returns its step.
inline std::int64_t loaded_step(const std::filesystem::path& run_dir) {
  const std::filesystem::path latest = train::find_checkpoint(run_dir);
  const train::CheckpointInfo info = train::read_checkpoint_info(latest);
  train::load_checkpoint(latest, ModelArrays(info.model, DType::f32, 0).states());
  return info.step;
}

}  // namespace weft::testing
