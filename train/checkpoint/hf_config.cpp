// One reader and one writer a family; keys as in transformers' configuration_gpt2.py and configuration_llama.py.
#include "train/checkpoint/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/json_file.h"
#include "base/files/mapped_file.h"
#include "base/text/json_object.h"

namespace weft::train {
namespace {

constexpr std::int64_t kLargest = 1'000'000'000;  // of sizes: so that products of two sizes don't overflow
constexpr const char* kGiveConfig = "give the config.json of a GPT2LMHeadModel, LlamaForCausalLM or MistralForCausalLM";
constexpr const char* kFamilies = "gpt2, llama or mistral, the model types implemented";

/// Other model types, each with a part that Weft doesn't compute, so that the error names this reason instead of a
/// tensor.
struct ForeignType {
  std::string_view type, part;
};
constexpr std::string_view kExperts = "a mixture of experts";
constexpr std::string_view kParallel = "parallel attention and MLP, and rotation of a part of each head";
constexpr std::array kForeignTypes = {
    ForeignType{"qwen2", "biases of Q, K and V"},
    ForeignType{"qwen3", "norms of Q and K"},
    ForeignType{"qwen2_moe", kExperts},
    ForeignType{"qwen3_moe", kExperts},
    ForeignType{"mixtral", kExperts},
    ForeignType{"deepseek_v2", "latent attention and a mixture of experts"},
    ForeignType{"deepseek_v3", "latent attention and a mixture of experts"},
    ForeignType{"gemma", "norms scaled by 1 + weight, embeddings scaled by the root of the width, and GELU gates"},
    ForeignType{"gemma2", "norms scaled by 1 + weight, a norm after each block, and capped logits"},
    ForeignType{"gemma3", "norms scaled by 1 + weight, norms of Q and K, and sliding windows"},
    ForeignType{"gemma3_text", "norms scaled by 1 + weight, norms of Q and K, and sliding windows"},
    ForeignType{"granite", "factors of embeddings, attention, residuals and logits"},
    ForeignType{"granitemoe", kExperts},
    ForeignType{"phi", kParallel},
    ForeignType{"phi3", "projections stored together, and rotation of a part of each head"},
    ForeignType{"gpt_neox", kParallel},
    ForeignType{"gptj", kParallel},
    ForeignType{"gpt_neo", "windows of local attention"},
    ForeignType{"falcon", "parallel attention and MLP"},
    ForeignType{"cohere", "parallel attention and MLP, and a factor of the logits"},
    ForeignType{"opt", "ReLU and positions counted from 2"},
    ForeignType{"bloom", "ALiBi positions"},
    ForeignType{"mpt", "ALiBi positions"},
    ForeignType{"stablelm", "LayerNorm, and rotation of a part of each head"},
    ForeignType{"starcoder2", "LayerNorm and biases with rotary positions"},
    ForeignType{"olmo", "norms without weights"},
    ForeignType{"olmo2", "norms of Q and K, and a norm after each block"},
    ForeignType{"smollm3", "layers without rotary positions"},
};

/// Settings of other model types that change what is computed, with the value at which they don't.
struct NeutralSetting {
  const char* key;
  double value;
};
constexpr std::array kNeutralSettings = {NeutralSetting{"embedding_multiplier", 1},
                                         NeutralSetting{"residual_multiplier", 1}, NeutralSetting{"logits_scaling", 1},
                                         NeutralSetting{"logit_scale", 1}, NeutralSetting{"partial_rotary_factor", 1}};
constexpr std::array kForeignSettings = {"attention_multiplier",    "query_pre_attn_scalar", "attn_logit_softcapping",
                                         "final_logit_softcapping", "quantization_config",   "num_local_experts"};

/// An object of a config, in which null counts as absent.
class Keys {
 public:
  explicit Keys(const DocumentValue& object) : object_(object) {
    if (!object.is_object()) object.refuse("an object");
  }

  bool has(const char* key) const { return mentions(key) && !object_[key].is_null(); }
  bool mentions(const char* key) const { return object_.find(key).has_value(); }
  DocumentValue operator[](const char* key) const { return object_[key]; }
  Keys object(const char* key) const { return Keys(object_[key]); }
  std::string name() const { return object_.place(); }

  std::int64_t integer(const char* key) const { return object_[key].integer(0, kLargest); }
  std::int64_t integer_or(const char* key, std::int64_t absent) const { return has(key) ? integer(key) : absent; }
  float number_or(const char* key, float absent) const { return has(key) ? object_[key].float_number() : absent; }
  bool flag_or(const char* key, bool absent) const { return has(key) ? object_[key].boolean() : absent; }
  std::string text_or(const char* key, const char* absent) const { return has(key) ? object_[key].text() : absent; }
  /// Refuses a setting that is present with another value than the one Weft computes.
  void require(const char* key, bool value) const {
    if (!has(key)) return;
    const DocumentValue found = object_[key];
    if (!found.is_boolean() || found.boolean() != value) refuse_other(found, value);
  }
  void require(const char* key, double value) const {
    if (!has(key)) return;
    const DocumentValue found = object_[key];
    if (!found.is_number() || found.number() != value) refuse_other(found, value);
  }
  /// The same for a text with several spellings of one meaning.
  void require_one_of(const char* key, std::initializer_list<std::string_view> values, const char* meaning) const {
    if (!has(key)) return;
    const std::string text = text_or(key, "");
    if (std::find(values.begin(), values.end(), text) == values.end()) object_[key].refuse(meaning);
  }

 private:
  static void refuse_other(const DocumentValue& found, const JsonValue& wanted) {
    found.refuse(wanted.text() + ", the only value implemented");
  }

  DocumentValue object_;
};

/// A size of gpt2 under its name, or under `alias`, the name in other families, which transformers takes for the same
/// size.
std::int64_t gpt2_size(const Keys& keys, const char* key, const char* alias) {
  const std::int64_t size = keys.integer(keys.has(key) || !keys.has(alias) ? key : alias);
  if (keys.has(alias) && keys.integer(alias) != size) {
    keys[alias].refuse(fmt::format("{}, as {} says: both names mean one size", size, key));
  }
  return size;
}

ops::ModelConfig read_gpt2(const Keys& keys) {
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

/// `rope`: the object with the type and its numbers: rope_scaling (transformers 4) or rope_parameters (5).
void read_rope_scaling(const Keys& rope, ops::ModelConfig& model) {
  const char* type_key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text_or(type_key, "default");
  if (type == "default") return;
  if (type != "llama3") rope[type_key].refuse("\"default\" or \"llama3\", the kinds of RoPE implemented");
  model.rope_scaling_factor = rope["factor"].float_number();
  model.rope_low_freq_factor = rope["low_freq_factor"].float_number();
  model.rope_high_freq_factor = rope["high_freq_factor"].float_number();
  model.rope_original_context = static_cast<float>(rope.integer("original_max_position_embeddings"));
}

void read_rope(const Keys& keys, ops::ModelConfig& model) {
  model.rope_theta = keys.number_or("rope_theta", 10000.0F);
  if (keys.has("rope_scaling")) read_rope_scaling(keys.object("rope_scaling"), model);
  if (!keys.has("rope_parameters")) return;
  const Keys rope = keys.object("rope_parameters");
  rope.require("partial_rotary_factor", 1.0);
  ops::ModelConfig other;
  other.rope_theta = rope.number_or("rope_theta", model.rope_theta);
  read_rope_scaling(rope, other);
  const auto numbers = [](const ops::ModelConfig& m) {
    return std::tuple(m.rope_theta, m.rope_scaling_factor, m.rope_low_freq_factor, m.rope_high_freq_factor,
                      m.rope_original_context);
  };
  // A file may have the keys of both versions, which must agree.
  const bool said_twice = keys.has("rope_theta") || keys.has("rope_scaling");
  if (said_twice && numbers(model) != numbers(other)) {
    keys["rope_parameters"].refuse("the numbers of rope_theta and rope_scaling, which the file also has");
  }
  std::tie(model.rope_theta, model.rope_scaling_factor, model.rope_low_freq_factor, model.rope_high_freq_factor,
           model.rope_original_context) = numbers(other);
}

/// Attention over fewer positions than the context. `window`: 0: none.
void refuse_shorter_window(const Keys& keys, std::int64_t window, const ops::ModelConfig& model) {
  const bool used = keys.flag_or("use_sliding_window", true);
  if (used && window > 0 && window < model.context) {
    throw UserError(
        fmt::format("{}: sliding_window {} is shorter than the context {}", keys.name(), window, model.context),
        "attention over the whole context: no sliding windows are implemented",
        fmt::format("set max_position_embeddings to {} in a copy of the file, and train on sequences of that length",
                    window));
  }
  if (!keys.has("layer_types")) return;
  const DocumentValue layers = keys["layer_types"];
  const auto is_full = [](const DocumentValue& layer) { return layer.is_text() && layer.text() == "full_attention"; };
  if (!layers.is_list() || !std::ranges::all_of(layers.items(), is_full)) {
    layers.refuse("\"full_attention\" for every layer, the only kind implemented");
  }
}

/// llama, or mistral, whose classes have other defaults.
ops::ModelConfig read_llama(const Keys& keys, bool mistral) {
  keys.require_one_of("hidden_act", {"silu", "swish"}, "\"silu\", the only activation implemented for llama");
  keys.require("attention_bias", false);
  keys.require("mlp_bias", false);
  ops::ModelConfig model;
  model.family = ops::Family::llama;
  model.vocab = keys.integer("vocab_size");
  model.context = keys.integer_or("max_position_embeddings", mistral ? 131072 : 2048);
  model.hidden = keys.integer("hidden_size");
  model.ffn = keys.integer("intermediate_size");
  model.layers = keys.integer("num_hidden_layers");
  model.heads = keys.integer("num_attention_heads");
  model.kv_heads = keys.integer_or("num_key_value_heads", mistral ? 8 : model.heads);
  model.norm_eps = keys.number_or("rms_norm_eps", 1e-6F);
  model.init_std = keys.number_or("initializer_range", 0.02F);
  model.tied = keys.flag_or("tie_word_embeddings", false);
  read_rope(keys, model);
  // An absent key means the class's default window, null means no window.
  const std::int64_t absent = mistral && !keys.mentions("sliding_window") ? 4096 : 0;
  refuse_shorter_window(keys, keys.integer_or("sliding_window", absent), model);
  if (keys.has("head_dim") && keys.integer("head_dim") * model.heads != model.hidden) {
    keys["head_dim"].refuse(fmt::format("hidden_size / num_attention_heads = {} / {}", model.hidden, model.heads));
  }
  return model;
}

/// Refuses settings that no family of Weft has, for every model type.
void refuse_foreign_settings(const Keys& keys) {
  for (const NeutralSetting& setting : kNeutralSettings) keys.require(setting.key, setting.value);
  for (const char* key : kForeignSettings) {
    if (keys.has(key)) keys[key].refuse("none: the setting isn't implemented");
  }
  if (!keys.has("architectures")) return;
  const DocumentValue names = keys["architectures"];
  const auto is_known = [](const DocumentValue& name) {
    if (!name.is_text()) return false;
    const std::string text = name.text();
    return text.ends_with("LMHeadModel") || text.ends_with("ForCausalLM") || text.ends_with("Model");
  };
  if (names.is_list() && std::ranges::all_of(names.items(), is_known)) return;
  names.refuse("a language model: GPT2LMHeadModel, LlamaForCausalLM or MistralForCausalLM");
}

ops::ModelConfig read_family(const Keys& keys, const std::string& type) {
  if (type == "gpt2") return read_gpt2(keys);
  if (type == "llama" || type == "mistral") return read_llama(keys, type == "mistral");
  const auto foreign = std::find_if(kForeignTypes.begin(), kForeignTypes.end(),
                                    [&](const ForeignType& known) { return known.type == type; });
  const std::string reason = foreign == kForeignTypes.end() ? "" : fmt::format(", which has {}", foreign->part);
  throw UserError(fmt::format("{}: model_type is {}{}", keys.name(), type, reason), kFamilies, kGiveConfig);
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
  config.add("architectures", JsonArray{"LlamaForCausalLM"})
      .add("model_type", "llama")
      .add("vocab_size", model.vocab)
      .add("max_position_embeddings", model.context)
      .add("hidden_size", model.hidden)
      .add("intermediate_size", model.ffn)
      .add("num_hidden_layers", model.layers)
      .add("num_attention_heads", model.heads)
      .add("num_key_value_heads", model.kv_heads)
      .add("head_dim", model.head_dim())
      .add("hidden_act", "silu")
      .add("mlp_bias", false)
      .add("attention_bias", false)
      .add("rms_norm_eps", shortest_double(model.norm_eps));
  JsonObject rope;
  if (model.rope_scaling_factor != 1.0F) {
    rope.add("rope_type", "llama3")
        .add("factor", shortest_double(model.rope_scaling_factor))
        .add("low_freq_factor", shortest_double(model.rope_low_freq_factor))
        .add("high_freq_factor", shortest_double(model.rope_high_freq_factor))
        .add("original_max_position_embeddings", static_cast<std::int64_t>(model.rope_original_context));
    config.add("rope_scaling", rope);
  } else {
    rope.add("rope_type", "default");
  }
  const double theta = shortest_double(model.rope_theta);
  config.add("rope_theta", theta).add("rope_parameters", rope.add("rope_theta", theta));
}

}  // namespace

std::string hf_config_json(const ops::ModelConfig& model, DType dtype) {
  JsonObject config;
  if (model.family == ops::Family::gpt2) {
    write_gpt2(model, config);
  } else {
    write_llama(model, config);
  }
  config.add("initializer_range", shortest_double(model.init_std))
      .add("tie_word_embeddings", model.tied)
      .add("torch_dtype", dtype == DType::bf16 ? "bfloat16" : "float32");
  // The byte tokenizer's and GPT-2's end-of-text; otherwise the tokenizer's files have to say.
  if (model.vocab == 257 || model.vocab == 50257) {
    config.add("eos_token_id", model.vocab - 1).add("bos_token_id", model.vocab - 1);
  }
  return indented_json(config.text()) + "\n";
}

HfConfig read_hf_config(std::string_view json_text, const std::string& name) {
  const Document config = read_json(json_text, name, {.fix = kGiveConfig});
  const Keys keys(config.root());
  HfConfig result;
  result.model = read_family(keys, keys.text_or("model_type", "absent"));
  refuse_foreign_settings(keys);
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
  const MappedFile json(file);
  return read_hf_config(json.text(), in_quotes(file));
}

}  // namespace weft::train
