// Checkpoints: folders that are complete or not there, from which a run continues bit for bit and others load the
// model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "ops/models/model_config.h"
#include "train/parameter_state.h"

namespace weft {

/// What a checkpoint says about itself; with the arrays, all that a run continues from. The data position follows from
/// the step (see BatchPlan), and Philox has no state.
struct CheckpointInfo {
  std::int64_t step = 0;  // steps done; the first step to run next
  std::uint64_t seed = 42;
  std::uint64_t tokens_seen = 0;
  DType dtype = DType::f32;
  ModelConfig model;
  std::string config_toml;                      // the resolved configuration
  std::map<std::string, std::string> versions;  // "weft": "0.1.0", and of the libraries that compute
};

/// Writes <run_dir>/checkpoints/step_00000200 for step 200 and returns its path:
///   model.safetensors      parameters in Hugging Face's names and layout
///   config.json            their sizes as Hugging Face writes them
///   optimizer.safetensors  fp32 "<tensor>.m", "<tensor>.v", and "<tensor>.master" of bf16 parameters, the same layout
///   manifest.json          CheckpointInfo, the shapes of all parameters, the sizes of the files; last
/// The folder has a temporary name until all of it is on the disk; other checkpoints aren't touched, one of the same
/// step is replaced. Throws RuntimeFault if the disk does, std::invalid_argument on missing arrays.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, const CheckpointInfo& info,
                                      std::span<const ParameterState> parameters);

/// The complete checkpoint of the highest step below <run_dir>/checkpoints, if there is one.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& run_dir);

/// The checkpoint that `path` means: a checkpoint folder itself, or a run folder's latest. Throws UserError.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// Reads manifest.json of a checkpoint folder and checks that its files are there in full size. Throws UserError.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& folder);

/// Fills all arrays from a checkpoint folder, exactly as they were. Throws UserError, naming the tensor, on other
/// parameters, shapes or dtype than were saved.
void load_checkpoint(const std::filesystem::path& folder, std::span<const MutableParameterState> parameters);

/// Weights only, from anything that holds some: a checkpoint or run folder, or what load_weights takes.
void load_parameters(const std::filesystem::path& path, const ModelConfig& model,
                     std::span<const MutableParameterState> parameters);

/// The model sizes of such a path: from a checkpoint's manifest, or from config.json in the folder or beside the file.
ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace weft
