// The rotary embedding in Hugging Face's config.json, in the shapes of transformers 4 and 5.
#pragma once

#include "base/text/json_object.h"
#include "ops/model_config.h"
#include "train/checkpoint/hf_keys.h"

namespace weft::train {

/// Reads rope_theta and rope_scaling (transformers 4) or rope_parameters (5) into the model, whose context is known.
/// Types default, linear, llama3 and yarn; others are refused, and so are files that say both, differently.
void read_hf_rope(const HfKeys& keys, ops::ModelConfig& model);

/// Writes them for both.
void write_hf_rope(const ops::ModelConfig& model, JsonObject& config);

}  // namespace weft::train
