// The arrays of adapters as PEFT stores them: reads them beside the model that they change, writes them, and merges
// them into the weights.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/files/durable_file.h"
#include "ops/model_config.h"
#include "train/checkpoint/adapter_tensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/parameter_state.h"
#include "train/checkpoint/weights.h"

namespace weft::train {

/// Weights of a saved model, and adapters of a folder beside them.
struct WeightPaths {
  std::filesystem::path model;     // for open_parameters()
  std::filesystem::path adapters;  // of PEFT; empty: the model's parameters are all
};

/// open_parameters() of `paths.model`, but adapters are those of `paths.adapters` if it is given.
ParameterReader open_parameters_and_adapters(const WeightPaths& paths, const ops::ModelConfig& model,
                                             std::span<const ParameterState> parameters, const ReadShare& share = {},
                                             std::span<const ops::ParameterSpec> elsewhere = {});

/// Fills `data`, and `master` where there is one, of each parameter.
void load_parameters_and_adapters(const WeightPaths& paths, const ops::ModelConfig& model,
                                  std::span<const ParameterState> parameters, const ReadShare& share = {},
                                  std::span<const ops::ParameterSpec> elsewhere = {});

/// Writes adapter_config.json and adapter_model.safetensors into the existing `folder` and returns their summaries: all
/// that PeftModel.from_pretrained() needs beside the base. Throws RuntimeFault if the disk does.
std::map<std::string, FileSummary> save_adapter(const std::filesystem::path& folder, const ops::ModelConfig& model,
                                                std::span<const ParameterState> parameters, const std::string& base,
                                                const ArrayOf& array_of = {});

/// Adds scale · B·A to each matrix with an adapter, in fp32, rounded once to its dtype. All arrays are whole. The
/// parameters of the model itself then compute what the model with adapters did.
void merge_adapters(std::span<const ParameterState> parameters);

}  // namespace weft::train
