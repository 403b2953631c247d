// One reader and one writer for gpt2, whose keys have names of their own, and one for all other types, which read and
// write what their row of hf_types.h says.
#include "train/checkpoint/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/text/json_object.h"
#include "train/checkpoint/hf_keys.h"
#include "train/checkpoint/hf_layers.h"
#include "train/checkpoint/hf_rope.h"
#include "train/checkpoint/hf_types.h"

namespace weft::train {
namespace {

constexpr std::uint64_t kMostBytesOfConfig = std::uint64_t{16} << 20;
constexpr const char* kGiveConfig = "give the config.json of a model of one of these types (docs/models.md)";

/// Settings of other model types that change what is computed, with the value at which they don't.
struct NeutralSetting {
  const char* key;
  double value;
};
constexpr std::array kNeutralSettings = {NeutralSetting{"embedding_multiplier", 1},
                                         NeutralSetting{"residual_multiplier", 1},
                                         NeutralSetting{"logits_scaling", 1},
                                         NeutralSetting{"logit_scale", 1},
                                         NeutralSetting{"partial_rotary_factor", 1},
                                         NeutralSetting{"num_local_experts", 0},
                                         NeutralSetting{"num_experts", 0}};
constexpr std::array kForeignSettings = {"attention_multiplier", "query_pre_attn_scalar", "attn_logit_softcapping",
                                         "final_logit_softcapping", "quantization_config"};

/// A size of gpt2 under its name, or under `alias`, the name in other families, which transformers takes for the same
/// size.
std::int64_t gpt2_size(const HfKeys& keys, const char* key, const char* alias) {
  const std::int64_t size = keys.integer(keys.has(key) || !keys.has(alias) ? key : alias);
  if (keys.has(alias) && keys.integer(alias) != size) {
    keys[alias].refuse(fmt::format("{}, as {} says: both names mean one size", size, key));
  }
  return size;
}

ops::ModelConfig read_gpt2(const HfKeys& keys) {
  keys.require_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"},
                      "\"gelu_new\", GELU by tanh, the only activation implemented for gpt2 (not exact GELU)");
  keys.require("scale_attn_weights", true);
  keys.require("scale_attn_by_inverse_layer_idx", false);
  keys.require("reorder_and_upcast_attn", false);
  keys.require("add_cross_attention", false);
  ops::ModelConfig model;
  model.family = ops::Family::gpt2;
  model.vocab = keys.integer("vocab_size");
  const bool older = !keys.has("n_positions") && keys.has("n_ctx");
  model.context = gpt2_size(keys, older ? "n_ctx" : "n_positions", "max_position_embeddings");
  model.hidden = gpt2_size(keys, "n_embd", "hidden_size");
  model.layers = gpt2_size(keys, "n_layer", "num_hidden_layers");
  model.heads = model.kv_heads = gpt2_size(keys, "n_head", "num_attention_heads");
  model.ffn = keys.integer_or("n_inner", 4 * model.hidden);
  model.norm_eps = keys.number_or("layer_norm_epsilon", 1e-5F);
  model.init_std = keys.number_or("initializer_range", 0.02F);
  model.tied = keys.flag_or("tie_word_embeddings", true);
  return model;
}

/// A null means as many as heads, an absent key the class's own number; 0: as many as heads.
std::int64_t kv_heads(const HfKeys& keys, std::int64_t heads, std::int64_t absent) {
  if (keys.has("num_key_value_heads")) return keys.integer("num_key_value_heads");
  return keys.mentions("num_key_value_heads") || absent == 0 ? heads : absent;
}

/// Activations by the names that mean them.
void require_activation(const HfKeys& keys, ops::Family family) {
  const bool gelu = ops::parts_of(family).activation == ops::Activation::geglu;
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    if (!gelu) {
      keys.require_one_of(key, {"silu", "swish"},
                          fmt::format("\"silu\", the only activation implemented for {}", to_string(family)));
    } else if (family == ops::Family::gemma) {  // whose first files mean GELU by tanh by "gelu"
      keys.require_one_of(key, {"gelu", "gelu_pytorch_tanh", "gelu_new"}, "\"gelu_pytorch_tanh\", GELU by tanh");
    } else {
      keys.require_one_of(key, {"gelu_pytorch_tanh", "gelu_new"}, "\"gelu_pytorch_tanh\", GELU by tanh");
    }
  }
}

void read_biases(const HfKeys& keys, const HfType& type, ops::ModelConfig& model) {
  if (type.attention_bias) {
    model.qkv_bias = model.out_bias = keys.flag_or("attention_bias", false);
  } else {
    keys.require("attention_bias", false);
    model.qkv_bias = type.type == "qwen2";
  }
  if (type.mlp_bias) {
    model.mlp_bias = keys.flag_or("mlp_bias", false);
  } else {
    keys.require("mlp_bias", false);
  }
}

/// Factors that are members of the model where its family has them.
struct Factor {
  const char* setting;
  std::string_view key;
  float ops::ModelConfig::*member;
};
constexpr Factor kFactors[] = {{"embedding_multiplier", "embedding-factor", &ops::ModelConfig::embedding_factor},
                               {"residual_multiplier", "residual-factor", &ops::ModelConfig::residual_factor},
                               {"logits_scaling", "logits-divisor", &ops::ModelConfig::logits_divisor},
                               {"attention_multiplier", "attention-scale", &ops::ModelConfig::attention_scale}};
constexpr const char* kQueryScalar = "query_pre_attn_scalar";  // gemma3: scores are divided by its root
constexpr std::int64_t kUsualQueryScalar = 256;

/// Whether a type's class reads a setting that others refuse.
bool has_factor(const HfType& type, const Factor& factor) {
  const bool other = type.query_scalar && factor.member == &ops::ModelConfig::attention_scale;
  return ops::parts_of(type.family).has_key(factor.key) && !other;
}

bool reads_setting(const HfType& type, std::string_view key) {
  if (key == kQueryScalar) return type.query_scalar;
  if (std::ranges::find(kExpertCounts, key) != kExpertCounts.end()) return type.has_experts();
  return std::ranges::any_of(kFactors,
                             [&](const Factor& factor) { return factor.setting == key && has_factor(type, factor); });
}

void read_factors(const HfKeys& keys, const HfType& type, ops::ModelConfig& model) {
  for (const Factor& factor : kFactors) {
    if (has_factor(type, factor)) model.*factor.member = keys.number_or(factor.setting, 1.0F);
  }
  if (!type.query_scalar) return;
  const float scalar = keys.number_or(kQueryScalar, kUsualQueryScalar);
  if (!(scalar > 0)) keys[kQueryScalar].refuse("a number above 0");
  if (scalar != static_cast<float>(model.head_dim())) model.attention_scale = 1.0F / std::sqrt(scalar);
}

void write_factors(const ops::ModelConfig& model, const HfType& type, JsonObject& config) {
  const float scale =
      model.attention_scale != 0.0F ? model.attention_scale : 1.0F / std::sqrt(static_cast<float>(model.head_dim()));
  for (const Factor& factor : kFactors) {
    if (!has_factor(type, factor)) continue;
    config.add(factor.setting,
               shortest_double(factor.member == &ops::ModelConfig::attention_scale ? scale : model.*factor.member));
  }
  if (!type.query_scalar) return;
  const double scalar = 1.0 / (static_cast<double>(scale) * static_cast<double>(scale)), whole = std::round(scalar);
  if (std::abs(scalar - whole) <= 1e-5 * scalar) {
    config.add(kQueryScalar, static_cast<std::int64_t>(whole));
  } else {
    config.add(kQueryScalar, scalar);
  }
}

/// llama and the types that differ from it in some parts.
ops::ModelConfig read_llama(const HfKeys& keys, const HfType& type) {
  require_activation(keys, type.family);
  ops::ModelConfig model;
  model.family = type.family;
  model.vocab = keys.integer("vocab_size");
  model.context = keys.integer_or("max_position_embeddings", type.context);
  model.hidden = keys.integer("hidden_size");
  model.ffn = keys.integer("intermediate_size");
  model.layers = keys.integer("num_hidden_layers");
  model.heads = keys.integer("num_attention_heads");
  model.kv_heads = kv_heads(keys, model.heads, type.kv_heads);
  model.norm_eps = keys.number_or("rms_norm_eps", type.norm_eps);
  model.init_std = keys.number_or("initializer_range", 0.02F);
  model.tied = keys.flag_or("tie_word_embeddings", type.tied);
  model.qk_norm = type.type == "qwen3";
  read_biases(keys, type, model);
  const std::int64_t head = keys.integer_or("head_dim", keys.mentions("head_dim") ? 0 : type.head_size);
  if (keys.has("head_dim") && head == 0) keys["head_dim"].refuse("a number above 0, or null");
  const bool usual = model.heads > 0 && head * model.heads == model.hidden;
  if (!usual) model.head_size = head;
  read_layers(keys, type, model);
  read_experts(keys, type, model);
  read_rope(keys, type, model);
  if (model.heads > 0) read_factors(keys, type, model);
  return model;
}

/// Refuses settings that no family of Weft has, for every model type.
void refuse_foreign_settings(const HfKeys& keys, const HfType* type) {
  const auto is_read = [&](const char* key) { return type != nullptr && reads_setting(*type, key); };
  for (const NeutralSetting& setting : kNeutralSettings) {
    if (!is_read(setting.key)) keys.require(setting.key, setting.value);
  }
  for (const char* key : kForeignSettings) {
    if (keys.has(key) && !is_read(key)) keys[key].refuse("none: the setting isn't implemented");
  }
  keys.require("use_mrope", false);
  keys.require("use_bidirectional_attention", false);
  if (keys.has("pruned_heads") && !keys["pruned_heads"].members().empty()) {
    keys["pruned_heads"].refuse("no heads: pruned ones aren't implemented");
  }
  if (!keys.has("architectures")) return;
  const DocumentValue names = keys["architectures"];
  const auto is_known = [](const DocumentValue& name) {
    if (!name.is_text()) return false;
    const std::string text = name.text();
    return text.ends_with("LMHeadModel") || text.ends_with("ForCausalLM") || text.ends_with("Model");
  };
  if (names.is_list() && std::ranges::all_of(names.items(), is_known)) return;
  names.refuse("a language model: " + hf_class_names());
}

/// The row of a type; null: gpt2.
const HfType* type_named(const HfKeys& keys, const std::string& type) {
  if (type == "gpt2") return nullptr;
  const auto known = std::ranges::find(hf_types(), type, &HfType::type);
  if (known != hf_types().end()) return &*known;
  const std::string_view part = foreign_part(type);
  const std::string reason = part.empty() ? "" : fmt::format(", which has {}", part);
  throw UserError(fmt::format("{}: model_type is {}{}", keys.name(), type, reason),
                  hf_type_names() + ", the model types implemented", kGiveConfig);
}

void write_gpt2(const ops::ModelConfig& model, JsonObject& config) {
  config.add("architectures", JsonArray{"GPT2LMHeadModel"})
      .add("model_type", "gpt2")
      .add("vocab_size", model.vocab)
      .add("n_ctx", model.context)
      .add("n_positions", model.context)
      .add("n_embd", model.hidden)
      .add("n_layer", model.layers)
      .add("n_head", model.heads)
      .add("n_inner", model.ffn)
      .add("activation_function", "gelu_new")
      .add("layer_norm_epsilon", shortest_double(model.norm_eps));
  // Zero, whatever the run used: these apply where the file is loaded.
  for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) config.add(dropout, 0.0);
  config.add("scale_attn_weights", true);
}

void write_llama(const ops::ModelConfig& model, JsonObject& config) {
  const HfType& type = hf_type_of(model);
  const bool gelu = model.parts().activation == ops::Activation::geglu;
  config.add("architectures", JsonArray{type.architecture})
      .add("model_type", type.type)
      .add("vocab_size", model.vocab)
      .add("max_position_embeddings", model.context)
      .add("hidden_size", model.hidden)
      .add("intermediate_size", model.ffn)
      .add("num_hidden_layers", model.layers)
      .add("num_attention_heads", model.heads)
      .add("num_key_value_heads", model.kv_heads)
      .add("head_dim", model.head_dim())
      .add("hidden_act", gelu ? "gelu_pytorch_tanh" : "silu");
  if (gelu) config.add("hidden_activation", "gelu_pytorch_tanh");
  if (type.mlp_bias) config.add("mlp_bias", model.mlp_bias);
  if (type.attention_bias) config.add("attention_bias", model.out_bias);
  write_layers(model, type, config);
  write_experts(model, type, config);
  write_factors(model, type, config);
  config.add("rms_norm_eps", shortest_double(model.norm_eps));
  write_rope(model, type, config);
  // Classes of other families have an id of their own, which a small vocabulary lacks.
  if (type.family != ops::Family::llama) config.add("pad_token_id", nullptr);
}

}  // namespace

std::string hf_config_json(const ops::ModelConfig& model, DType dtype, const std::optional<TextEnds>& ends) {
  JsonObject config;
  if (model.family == ops::Family::gpt2) {
    write_gpt2(model, config);
  } else {
    write_llama(model, config);
  }
  config.add("initializer_range", shortest_double(model.init_std))
      .add("tie_word_embeddings", model.tied)
      .add("torch_dtype", dtype == DType::bf16 ? "bfloat16" : "float32");
  if (ends) {
    // transformers gives ids of its own to a model that has none.
    const auto id = [](std::optional<std::int32_t> token) { return token ? JsonValue(*token) : JsonValue(nullptr); };
    if (ends->ends.size() > 1) {
      config.add("eos_token_id", ends->ends);
    } else {
      config.add("eos_token_id", id(ends->ends.empty() ? std::nullopt : std::optional(ends->ends.front())));
    }
    config.add("bos_token_id", id(ends->begin));
  } else if (model.vocab == 257 || model.vocab == 50257) {  // the byte tokenizer's and GPT-2's end of a text
    config.add("eos_token_id", model.vocab - 1).add("bos_token_id", model.vocab - 1);
  }
  return indented_json(config.text()) + "\n";
}

HfConfig read_hf_config(std::string_view json_text, const std::string& name) {
  const Document config = read_json(json_text, name, {.fix = kGiveConfig});
  const HfKeys keys(config.root());
  HfConfig result;
  const HfType* const type = type_named(keys, keys.text_or("model_type", "absent"));
  result.model = type != nullptr ? read_llama(keys, *type) : read_gpt2(keys);
  refuse_foreign_settings(keys, type);
  result.dtype =
      keys.text_or(keys.has("dtype") ? "dtype" : "torch_dtype", "float32") == "bfloat16" ? DType::bf16 : DType::f32;
  try {
    ops::validate(result.model);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", name, error.what()), "", "");
  }
  return result;
}

HfConfig load_hf_config(const std::filesystem::path& file) {
  return read_hf_config(whole_file(file, kMostBytesOfConfig), in_quotes(file));
}

}  // namespace weft::train
