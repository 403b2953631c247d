// Hugging Face's config.json: the model sizes that stand beside weights, in both directions.
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "ops/models/model_config.h"

namespace weft {

/// The config.json of a GPT2LMHeadModel or LlamaForCausalLM with these sizes. RoPE settings are written the way
/// transformers 4 reads them (rope_theta, rope_scaling) and the way 5 does (rope_parameters).
std::string hf_config_json(const ModelConfig& model, DType dtype);

/// Reads either way. `name` stands for the file in messages. Throws UserError on a missing or misshapen key, another
/// model_type, and on each setting that Weft doesn't implement (biases in llama, another activation or rope_type, …):
/// ignoring one would give wrong numbers silently.
ModelConfig model_from_hf_config(std::string_view json_text, const std::string& name);

}  // namespace weft
