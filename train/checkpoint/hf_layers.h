// The layers of a config.json that differ from each other: with a window, without positions, with experts or an MLP.
// Internal to train/checkpoint.
#pragma once

#include <array>

#include "base/text/json_object.h"
#include "ops/model_config.h"
#include "train/checkpoint/hf_keys.h"
#include "train/checkpoint/hf_types.h"

namespace weft::train {

/// Reads them into a model whose context and number of layers are known. Throws UserError.
void read_layers(const HfKeys& keys, const HfType& type, ops::ModelConfig& model);

void write_layers(const ops::ModelConfig& model, const HfType& type, JsonObject& config);

/// The names that transformers gives to the number of experts.
inline constexpr std::array kExpertCounts = {"num_local_experts", "num_experts"};

/// The same for experts, and for the layers that have an MLP in their place; of a type without experts nothing.
void read_experts(const HfKeys& keys, const HfType& type, ops::ModelConfig& model);
void write_experts(const ops::ModelConfig& model, const HfType& type, JsonObject& config);

}  // namespace weft::train
