// The layers of a config.json that differ from each other: with a window, and without positions. Internal to
// train/checkpoint.
#pragma once

#include "base/text/json_object.h"
#include "ops/model_config.h"
#include "train/checkpoint/hf_keys.h"
#include "train/checkpoint/hf_types.h"

namespace weft::train {

/// Reads them into a model whose context and number of layers are known. Throws UserError.
void read_layers(const HfKeys& keys, const HfType& type, ops::ModelConfig& model);

void write_layers(const ops::ModelConfig& model, const HfType& type, JsonObject& config);

}  // namespace weft::train
