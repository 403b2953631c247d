// The keys of the model: its name, and its sizes one by one.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/gguf_file.h"
#include "base/files/input_file.h"
#include "base/units.h"
#include "train/checkpoint/gguf_model.h"
#include "train/checkpoint/hf_config.h"
#include "train/config/key_kinds.h"

namespace weft::train {

namespace {

namespace fs = std::filesystem;

/// Updates sizes that depend on a changed size: as many key-value heads as heads if they were equal or the family
/// requires it, and GPT-2's MLP of four times the width. Another family drops what it doesn't have.
void follow(const ops::ModelConfig& before, ops::ModelConfig& after) {
  const bool became_gpt2 = after.family == ops::Family::gpt2 && before.family != ops::Family::gpt2;
  const bool heads_changed = after.heads != before.heads && before.kv_heads == before.heads;
  if (became_gpt2 || heads_changed) after.kv_heads = after.heads;
  for (const ops::Addition& addition : ops::additions()) {
    // Numbers of rotations stay, where they are idle.
    if (after.family == before.family || addition.key.starts_with("rope-")) continue;
    if (!after.parts().has_key(addition.key)) addition.drop(after);
  }
  if (after.family == ops::Family::gpt2 && after.hidden != before.hidden && before.ffn == 4 * before.hidden) {
    after.ffn = 4 * after.hidden;
  }
}

/// A size that differs from the named model's makes the model a custom one.
ConfigKey model_size(ConfigKey entry) {
  entry.set = [set = entry.set, get = entry.get](RunConfig& config, std::string_view value, std::string_view where) {
    load_named_model(config);
    const ops::ModelConfig before = config.model;
    const std::string text_before = get(config);
    set(config, value, where);
    if (get(config) == text_before) return;
    follow(before, config.model);
    config.model_name = config.model.name = kCustomModel;
    config.model_folder.clear();
  };
  return entry;
}

/// Whether a value of the key means a folder. A model's name means the model, whatever folders there are.
bool means_folder(std::string_view value) {
  const std::vector<std::string> names = ops::model_names();
  if (std::ranges::find(names, value) != names.end()) return false;
  std::error_code hidden;  // a path that can't be read counts as absent
  return value.find('/') != std::string_view::npos || fs::exists(fs::path(value), hidden);
}

ops::ModelConfig model_of_folder(const fs::path& folder) {
  constexpr const char* kExpected = "a model's name, a folder of Hugging Face with config.json, or a GGUF file";
  if (is_gguf(folder)) return read_gguf_config(GgufFile(folder)).model;
  std::error_code hidden;
  if (!fs::is_directory(folder, hidden)) {
    const bool is_file = fs::exists(folder, hidden);
    throw UserError(in_quotes(folder) + (is_file ? " is no folder" : " doesn't exist"), kExpected,
                    is_file ? "give the folder that it is in" : "check the path");
  }
  if (!fs::exists(folder / kModelConfigFile, hidden)) {
    const bool is_run = fs::exists(folder / "config.toml", hidden);
    throw UserError(in_quotes(folder) + " has no " + kModelConfigFile, kExpected,
                    is_run ? "give a run's folder without --model: it is a whole configuration"
                           : "copy the model's config.json into it, or give the model's own folder");
  }
  return load_hf_config(folder / kModelConfigFile).model;
}

/// Adapters stay, whatever the model is.
void replace_model(RunConfig& config, ops::ModelConfig model) {
  model.lora = config.model.lora;
  config.model = std::move(model);
}

void set_model(RunConfig& config, std::string_view value, std::string_view where) {
  expect_plain_text(value, where);
  const bool custom = value == kCustomModel, folder = !custom && means_folder(value);
  if (custom) load_named_model(config);
  try {
    if (!custom) replace_model(config, folder ? model_of_folder(value) : ops::model_by_name(value));
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()), "", "");
  }
  config.model_folder = folder ? value : "";
  config.model_name = config.model.name = folder ? kCustomModel : std::string(value);
}

}  // namespace

ConfigKey model_key() {
  return {"model",
          ValueKind::text,
          "text",
          "a name (docs/models.md): tiny, small, llama-tiny, gpt2-124m to gpt2-1558m, gpt-5b to gpt-640b, llama-1b to "
          "llama-405b, moe-tiny, mixtral-8x7b, a Hugging Face folder, or a GGUF file; "
          "--init-from loads weights",
          set_model,
          [](const RunConfig& config) { return config.model_name; }};
}

namespace {

std::vector<Word<ops::Family>> family_words() {
  std::vector<Word<ops::Family>> words;
  for (const ops::FamilyParts& parts : ops::all_families()) words.push_back({std::string(parts.name), parts.family});
  return words;
}

ConfigKey layers_key(std::string name, std::string help, ops::LayerSet ops::ModelConfig::*field) {
  const auto print = [](const ops::LayerSet& layers) { return to_string(layers); };
  return parsed_key(std::move(name), ValueKind::text, "layers", std::move(help), field, ops::parse_layers, print);
}

}  // namespace

std::vector<ConfigKey> model_size_keys() {
  std::vector<ConfigKey> entries{
      words_key<ops::Family>(
          "model.family",
          "gpt2: LayerNorm, GELU, learned positions; llama: RMSNorm, SwiGLU, RoPE; also for Mistral and Qwen; the "
          "others as in docs/models.md",
          family_words(), &ops::ModelConfig::family),
      number_key("model.layers", "transformer blocks", &ops::ModelConfig::layers, 1, 10000),
      number_key("model.hidden", "width of the residual stream", &ops::ModelConfig::hidden, 1, 1 << 20),
      number_key("model.heads", "attention heads", &ops::ModelConfig::heads, 1, 1 << 16),
      number_key("model.kv-heads", "key and value heads (llama); it divides heads", &ops::ModelConfig::kv_heads, 1,
                 1 << 16),
      number_key("model.ffn", "width of the MLP", &ops::ModelConfig::ffn, 1, 1 << 22),
      number_key("model.vocab", "tokens of the vocabulary", &ops::ModelConfig::vocab, 2, 1 << 24),
      number_key("model.context", "longest sequence", &ops::ModelConfig::context, 1, 1 << 20),
      boolean_key("model.tied", "use the token embedding as LM head too", &ops::ModelConfig::tied),
      number_key("model.norm-eps", "added to the variance in norms", &ops::ModelConfig::norm_eps, 1e-12, 0.1),
      number_key("model.init-std", "standard deviation of initial weights", &ops::ModelConfig::init_std, 0, 10),
      number_key("model.rope-theta", "base of the rotary frequencies (llama)", &ops::ModelConfig::rope_theta, 1, 1e12),
      number_key("model.rope-scaling-factor", "llama3 scaling of rotary frequencies; 1: none",
                 &ops::ModelConfig::rope_scaling_factor, 1, 1e6),
      number_key("model.rope-low-freq-factor", "llama3 scaling: bound of the long wavelengths",
                 &ops::ModelConfig::rope_low_freq_factor, 1e-3, 1e6),
      number_key("model.rope-high-freq-factor", "llama3 scaling: bound of the short wavelengths",
                 &ops::ModelConfig::rope_high_freq_factor, 1e-3, 1e6),
      number_key("model.rope-original-context", "llama3 scaling: context before scaling",
                 &ops::ModelConfig::rope_original_context, 1, 1e9),
      words_key<ops::RopeKind>(
          "model.rope-scaling",
          "how rope-scaling-factor scales frequencies; yarn's beta_slow and beta_fast are rope-low-freq-factor and "
          "rope-high-freq-factor",
          {{"llama3", ops::RopeKind::llama3}, {"linear", ops::RopeKind::linear}, {"yarn", ops::RopeKind::yarn}},
          &ops::ModelConfig::rope_scaling),
      number_key("model.rope-attention-factor", "yarn: factor of queries and keys; 0: 0.1·ln(rope-scaling-factor) + 1",
                 &ops::ModelConfig::rope_attention_factor, 0, 1e6),
      boolean_key("model.rope-truncate", "yarn: round its bounds to whole elements", &ops::ModelConfig::rope_truncate),
      number_key("model.head-size", "columns of a head (llama); 0: hidden / heads", &ops::ModelConfig::head_size, 0,
                 1 << 16),
      boolean_key("model.qkv-bias", "biases of Q, K and V (llama), as Qwen2 has them", &ops::ModelConfig::qkv_bias),
      boolean_key("model.out-bias", "a bias of attention's output (llama)", &ops::ModelConfig::out_bias),
      boolean_key("model.mlp-bias", "biases of the MLP (llama)", &ops::ModelConfig::mlp_bias),
      boolean_key("model.qk-norm", "RMSNorm of each head's query and key (llama), as Qwen3 has it",
                  &ops::ModelConfig::qk_norm),
      number_key("model.window", "positions that a query sees, its own included (llama), as in Mistral; 0: all",
                 &ops::ModelConfig::window, 0, 1 << 24),
      number_key("model.window-from", "the first layer with the window; 0: all layers have it",
                 &ops::ModelConfig::window_from, 0, 10000),
      layers_key("model.full-layers", "layers without the window that the layers around them have, such as 3,7-9",
                 &ops::ModelConfig::full_layers),
      layers_key("model.unrotated-layers", "layers without rotary positions (smollm3), such as 3,7-9",
                 &ops::ModelConfig::unrotated_layers),
      number_key("model.rope-local-theta",
                 "base of the rotary frequencies in layers with the window, which aren't scaled (olmo3, gemma3); 0: as "
                 "in the others",
                 &ops::ModelConfig::rope_local_theta, 0, 1e12),
      number_key("model.attention-scale", "factor of attention's scores (granite, gemma3); 0: 1/√head-size",
                 &ops::ModelConfig::attention_scale, 0, 1e6),
      number_key("model.embedding-factor", "factor of embeddings (granite)", &ops::ModelConfig::embedding_factor, 0,
                 1e6),
      number_key("model.residual-factor", "factor of what attention and MLP add (granite)",
                 &ops::ModelConfig::residual_factor, 0, 1e6),
      number_key("model.logits-divisor", "divisor of logits (granite)", &ops::ModelConfig::logits_divisor, 0, 1e6),
      number_key("model.experts", "experts in place of an MLP (mixtral, qwen3_moe); 0: an MLP",
                 &ops::ModelConfig::experts, 0, ops::kMostExperts),
      number_key("model.experts-per-token", "experts that a router chooses for each token (mixtral, qwen3_moe)",
                 &ops::ModelConfig::experts_per_token, 1, ops::kMostExperts),
      number_key("model.expert-ffn", "width of an expert (qwen3_moe); 0: model.ffn", &ops::ModelConfig::expert_ffn, 0,
                 1 << 22),
      boolean_key("model.normalise-experts", "the weights of a token's experts add up to 1 (qwen3_moe)",
                  &ops::ModelConfig::normalise_experts),
      layers_key("model.dense-layers", "layers with an MLP in a model with experts (qwen3_moe), such as 0,5-7",
                 &ops::ModelConfig::dense_layers),
  };
  for (ConfigKey& entry : entries) entry = model_size(std::move(entry));
  return entries;
}

void load_named_model(RunConfig& config) {
  if (config.model_name == kCustomModel || config.model_name == config.model.name) return;
  replace_model(config, ops::model_by_name(config.model_name));
  config.model.name = config.model_name;
}

}  // namespace weft::train
