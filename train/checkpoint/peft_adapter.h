// Adapters as PEFT stores them, and their merge into the weights that they change.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/files/durable_file.h"
#include "ops/model_config.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {

inline constexpr const char* kAdapterFile = "adapter_model.safetensors";
inline constexpr const char* kAdapterConfigFile = "adapter_config.json";

/// The adapter_config.json of a model with adapters. `base`: the name or folder of the model below them, as people know
/// it; empty: null.
std::string peft_config_json(const ops::ModelConfig& model, const std::string& base);

/// Writes adapter_config.json and adapter_model.safetensors into the existing `folder` and returns their summaries: all
/// that PeftModel.from_pretrained() needs beside the base. Throws RuntimeFault if the disk does.
std::map<std::string, FileSummary> save_adapter(const std::filesystem::path& folder, const ops::ModelConfig& model,
                                                std::span<const ParameterState> parameters, const std::string& base);

/// Adds alpha/rank · B·A to each matrix with an adapter, in fp32, rounded once to its dtype. All arrays are whole. The
/// parameters of the model itself then compute what the model with adapters did.
void merge_adapters(const ops::ModelConfig& model, std::span<const ParameterState> parameters);

}  // namespace weft::train
