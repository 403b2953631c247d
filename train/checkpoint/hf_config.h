// Reads and writes Hugging Face's config.json, which holds the model's sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "ops/model_config.h"

namespace weft::train {

inline constexpr const char* kModelConfigFile = "config.json";

/// The ids that a tokenizer puts before and after a text; nullopt: none.
struct TextEnds {
  std::optional<std::int32_t> begin;
  std::vector<std::int32_t> ends;  // any of them ends a text
};

/// The config.json of a model with these sizes, of the first type that can say all of them: gpt2, llama, mistral,
/// qwen2, qwen3. RoPE settings are written the way transformers 4 reads them (rope_theta, rope_scaling) and the way 5
/// does (rope_parameters). `ends`: of the model's tokenizer; without it, only vocabularies of bytes and of GPT-2 have
/// such ids.
std::string hf_config_json(const ops::ModelConfig& model, DType dtype, const std::optional<TextEnds>& ends = {});

/// The content of a config.json: the model, and the dtype of its stored weights.
struct HfConfig {
  ops::ModelConfig model;
  DType dtype = DType::f32;  // bf16 for bfloat16, f32 for all others, which are widened when they are read
};

/// Reads either way; model types gpt2, llama, mistral, qwen2 and qwen3. `name` stands for the file in messages. Throws
/// UserError on a missing or misshapen key, on another model_type (naming the part of it that Weft doesn't compute),
/// and on each setting that Weft doesn't implement (another activation or rope_type, windows in other layers than the
/// last ones, …): ignoring such a setting would compute other numbers.
HfConfig read_hf_config(std::string_view json_text, const std::string& name);

/// The same for a file. Throws UserError too if it can't be read.
HfConfig load_hf_config(const std::filesystem::path& file);

}  // namespace weft::train
