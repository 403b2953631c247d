// The model that a folder of trained weights holds, and a configuration that starts from it: sizes that the user left
// out come from the folder, sizes that the user gave must be the folder's.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "train/checkpoint/adapter_file.h"
#include "train/checkpoint/manifest.h"
#include "train/config/config.h"

namespace weft::train {

/// The description of a saved model, read without its weights.
struct SavedModel {
  std::filesystem::path path;  // a checkpoint's folder, Hugging Face's folder or .safetensors file, a GGUF file
  std::optional<CheckpointInfo> checkpoint;  // without its tuned products; none: weights of Hugging Face
  ops::ModelConfig model;
  DType dtype = DType::f32;             // of the weights; f32 stands for types that Weft widens
  std::filesystem::path adapters = {};  // a folder of PEFT; empty: the model is all that its own folder has

  WeightPaths weights() const { return {path, adapters}; }
};

/// The folder to take a checkpoint's stored tuning from, if it is one.
std::optional<std::filesystem::path> checkpoint_of(const SavedModel& saved);

/// "runs/mine/checkpoints/step_00000200, step 200", or the folder of Hugging Face: for a line to a person.
std::string name_of(const SavedModel& saved);

/// `path`: a run folder (its newest checkpoint counts), a checkpoint folder, a folder of Hugging Face, a .safetensors
/// file with a config.json beside it, or a GGUF file. Throws UserError on anything else, on models that Weft doesn't
/// compute (see read_hf_config), and on a checkpoint whose config.json or tokenizer was damaged. `adapters`: a folder
/// of PEFT whose adapters the model then has (see read_adapters()); empty: none.
SavedModel read_saved_model(const std::filesystem::path& path, const std::filesystem::path& adapters = {});

/// The checkpoint from which a run continues: `resume`, or with "auto" the newest of run-dir if there is one. Throws
/// UserError where `resume` names none.
std::optional<std::filesystem::path> checkpoint_to_resume(const RunConfig& config);

/// Where `config` resumes or has init-from: takes over the saved model, and of a checkpoint also dtype and seed, as far
/// as they weren't given. Throws UserError naming the first key of the model that was given with another value, its two
/// values and the fix. Another seed is no error: it is noted in config.warnings.
///
///   init-from = llama-folder             the folder's sizes
///   model.heads = 3, init-from = folder  refused unless the folder's model has 3 heads
///
/// If the configuration gives every size, a missing folder is no error here, so that plans of old runs can still be
/// shown; training refuses the missing folder when it loads the weights.
///
/// Where the key `model` names a folder with weights and nothing loads them, config.warnings says so.
void take_saved_model(RunConfig& config);

/// The configuration of the run that wrote a checkpoint; nullopt where an older build stored keys that mean something
/// else by now.
std::optional<RunConfig> stored_config(const CheckpointInfo& info);

/// The configuration of the run that `resume` names, as the base of a command line that gives no file: the run's own,
/// without the settings that only concern its start. `run-dir` becomes the run's folder. `over`: see load_toml_text().
/// A micro-batch that was a rank's whole share stays so, whatever the grid is next.
RunConfig config_to_resume(const std::string& resume, std::span<const Setting> over = {});

}  // namespace weft::train
