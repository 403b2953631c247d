// Numbers of rotary embeddings in a config.json. They mean what transformers' modeling_rope_utils.py makes of them.
// Internal to train/checkpoint.
#pragma once

#include "base/text/json_object.h"
#include "ops/model_config.h"
#include "train/checkpoint/hf_keys.h"
#include "train/checkpoint/hf_types.h"

namespace weft::train {

/// Reads rope_theta and rope_scaling (transformers 4) or rope_parameters (5) into the model, whose context and windows
/// are known. Kinds default, linear, llama3 and yarn; others are refused, and so are files that say both, differently.
void read_rope(const HfKeys& keys, const HfType& type, ops::ModelConfig& model);

/// Writes them for both.
void write_rope(const ops::ModelConfig& model, const HfType& type, JsonObject& config);

}  // namespace weft::train
