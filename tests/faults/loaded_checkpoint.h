// Loads a run's checkpoints with all checks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "train/checkpoint/checkpoint.h"

namespace weft::testing {

/// Memory for loading a checkpoint.
class LoadedModel {
 public:
  explicit LoadedModel(const ops::ModelConfig& model) : specs_(ops::model_parameters(model)) {
    for (const ops::ParameterSpec& spec : specs_) {
      for (auto* arrays : {&data_, &m_, &v_}) arrays->emplace_back(static_cast<std::size_t>(spec.rows * spec.cols));
    }
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      states_.push_back({&specs_[i], DType::f32, data_[i].data(), m_[i].data(), v_[i].data(), nullptr});
    }
  }
  const std::vector<train::ParameterState>& states() const { return states_; }

 private:
  std::vector<ops::ParameterSpec> specs_;
  std::vector<std::vector<float>> data_, m_, v_;
  std::vector<train::ParameterState> states_;
};

/// Loads the latest complete checkpoint with all checks and returns its step.
inline std::int64_t loaded_step(const std::filesystem::path& run_dir) {
  const std::filesystem::path latest = train::find_checkpoint(run_dir);
  const train::CheckpointInfo info = train::read_checkpoint_info(latest);
  train::load_checkpoint(latest, LoadedModel(info.model).states());
  return info.step;
}

}  // namespace weft::testing
