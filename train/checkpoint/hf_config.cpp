// One reader and one writer a family; keys as in transformers' configuration_gpt2.py and configuration_llama.py. The
// numbers of a rotary embedding mean what transformers' modeling_rope_utils.py makes of them.
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

namespace weft::train {
namespace {

using ops::RopeKind;

constexpr std::uint64_t kMostBytesOfConfig = std::uint64_t{16} << 20;
constexpr const char* kGiveConfig =
    "give the config.json of a GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or "
    "Qwen3ForCausalLM";
constexpr const char* kFamilies = "gpt2, llama, mistral, qwen2 or qwen3, the model types implemented";

/// Other model types, each with a part that Weft doesn't compute, so that the error names this reason instead of a
/// tensor.
struct ForeignType {
  std::string_view type, part;
};
constexpr std::string_view kExperts = "a mixture of experts";
constexpr std::string_view kParallel = "parallel attention and MLP, and rotation of a part of each head";
constexpr std::array kForeignTypes = {
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
class HfKeys {
 public:
  explicit HfKeys(const DocumentValue& object) : object_(object) {
    if (!object.is_object()) object.refuse("an object");
  }

  bool has(const char* key) const { return mentions(key) && !object_[key].is_null(); }
  bool mentions(const char* key) const { return object_.find(key).has_value(); }
  DocumentValue operator[](const char* key) const { return object_[key]; }
  HfKeys object(const char* key) const { return HfKeys(object_[key]); }
  std::string name() const { return object_.place(); }

  std::int64_t integer(const char* key) const { return object_[key].integer(0, kLargest); }
  std::int64_t integer_or(const char* key, std::int64_t absent) const { return has(key) ? integer(key) : absent; }
  float number_or(const char* key, float absent) const { return has(key) ? object_[key].float_number() : absent; }
  bool flag_or(const char* key, bool absent) const { return has(key) ? object_[key].boolean() : absent; }
  std::string text_or(const char* key, const char* absent) const { return has(key) ? object_[key].text() : absent; }
  /// Refuses a setting that is present with another value than the one Weft computes.
  template <class Value>
  void require(const char* key, Value value) const {
    if (!has(key) || object_[key].json() == value) return;
    object_[key].refuse(JsonValue(value).text() + ", the only value implemented");
  }
  /// The same for a text with several spellings of one meaning.
  void require_one_of(const char* key, std::initializer_list<std::string_view> values, const char* meaning) const {
    if (!has(key)) return;
    const std::string text = text_or(key, "");
    if (std::find(values.begin(), values.end(), text) == values.end()) object_[key].refuse(meaning);
  }

 private:
  static constexpr std::int64_t kLargest = 1'000'000'000;  // of sizes: so that products of two don't overflow

  DocumentValue object_;
};

/// The context before scaling. A number beside the object comes first, as in transformers.
float original_context(const HfKeys& keys, const HfKeys& rope, const ops::ModelConfig& model) {
  constexpr const char* kKey = "original_max_position_embeddings";
  const std::int64_t inside = rope.integer_or(kKey, model.context);
  return static_cast<float>(keys.integer_or(kKey, inside));
}

void read_llama3(const HfKeys& keys, const HfKeys& rope, ops::ModelConfig& model) {
  model.rope_scaling_factor = rope["factor"].float_number();
  model.rope_low_freq_factor = rope["low_freq_factor"].float_number();
  model.rope_high_freq_factor = rope["high_freq_factor"].float_number();
  model.rope_original_context = original_context(keys, rope, model);
}

/// The factor of queries and keys: given, or from mscale and mscale_all_dim; 0: from the scaling factor.
float yarn_attention_factor(const HfKeys& rope, float factor) {
  if (rope.has("attention_factor")) {
    const float given = rope["attention_factor"].float_number();
    if (!(given > 0)) rope["attention_factor"].refuse("a number above 0");
    return given;
  }
  const float numerator = rope.number_or("mscale", 0.0F), denominator = rope.number_or("mscale_all_dim", 0.0F);
  if (numerator == 0.0F || denominator == 0.0F) return 0.0F;
  const auto stretch = [factor](double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(static_cast<double>(factor)) + 1.0;
  };
  return static_cast<float>(stretch(numerator) / stretch(denominator));
}

void read_yarn(const HfKeys& keys, const HfKeys& rope, ops::ModelConfig& model) {
  model.rope_scaling = RopeKind::yarn;
  model.rope_original_context = original_context(keys, rope, model);
  // A null means the ratio of the two contexts.
  const bool ratio = rope.mentions("factor") && !rope.has("factor");
  model.rope_scaling_factor =
      ratio ? static_cast<float>(model.context) / model.rope_original_context : rope["factor"].float_number();
  // A zero counts as absent in transformers.
  const float fast = rope.number_or("beta_fast", 0.0F), slow = rope.number_or("beta_slow", 0.0F);
  model.rope_high_freq_factor = fast != 0.0F ? fast : 32.0F;
  model.rope_low_freq_factor = slow != 0.0F ? slow : 1.0F;
  model.rope_truncate = rope.flag_or("truncate", true);
  model.rope_attention_factor = yarn_attention_factor(rope, model.rope_scaling_factor);
}

/// `rope`: the object with the type and its numbers: rope_scaling (transformers 4) or rope_parameters (5).
void read_scaling(const HfKeys& keys, const HfKeys& rope, ops::ModelConfig& model) {
  const char* type_key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text_or(type_key, "default");
  rope.require("partial_rotary_factor", 1.0);
  if (rope.has("mrope_section")) rope["mrope_section"].refuse("none: positions of one kind alone are implemented");
  if (type == "default") return;
  if (type == "llama3") return read_llama3(keys, rope, model);
  if (type == "yarn") return read_yarn(keys, rope, model);
  if (type != "linear") {
    rope[type_key].refuse("\"default\", \"linear\", \"llama3\" or \"yarn\", the kinds of RoPE implemented");
  }
  model.rope_scaling = RopeKind::linear;
  model.rope_scaling_factor = rope["factor"].float_number();
}

auto numbers_of(ops::ModelConfig& model) {
  return std::tie(model.rope_theta, model.rope_scaling, model.rope_scaling_factor, model.rope_low_freq_factor,
                  model.rope_high_freq_factor, model.rope_original_context, model.rope_attention_factor,
                  model.rope_truncate);
}

JsonObject scaling_json(const ops::ModelConfig& model) {
  JsonObject rope;
  rope.add("rope_type", to_string(model.rope_scaling)).add("factor", shortest_double(model.rope_scaling_factor));
  const auto original = static_cast<std::int64_t>(model.rope_original_context);
  switch (model.rope_scaling) {
    case RopeKind::linear:
      break;
    case RopeKind::llama3:
      rope.add("low_freq_factor", shortest_double(model.rope_low_freq_factor))
          .add("high_freq_factor", shortest_double(model.rope_high_freq_factor))
          .add("original_max_position_embeddings", original);
      break;
    case RopeKind::yarn:
      rope.add("beta_fast", shortest_double(model.rope_high_freq_factor))
          .add("beta_slow", shortest_double(model.rope_low_freq_factor))
          .add("original_max_position_embeddings", original)
          .add("attention_factor", shortest_double(model.rotary_factor()));
      if (!model.rope_truncate) rope.add("truncate", false);
      break;
  }
  return rope;
}

/// Reads rope_theta and rope_scaling (transformers 4) or rope_parameters (5) into the model, whose context is known.
/// Types default, linear, llama3 and yarn; others are refused, and so are files that say both, differently.
void read_rope(const HfKeys& keys, ops::ModelConfig& model) {
  model.rope_theta = keys.number_or("rope_theta", 10000.0F);
  // Files between transformers 4 and 5 have it among the numbers of the scaling.
  if (keys.has("rope_scaling") && keys.object("rope_scaling").has("rope_theta")) {
    const float inside = keys.object("rope_scaling").number_or("rope_theta", 0.0F);
    if (keys.has("rope_theta") && inside != model.rope_theta) {
      keys["rope_scaling"]["rope_theta"].refuse("rope_theta's number, which the file also has");
    }
    model.rope_theta = inside;
  }
  ops::ModelConfig other = model;
  if (keys.has("rope_scaling")) read_scaling(keys, keys.object("rope_scaling"), model);
  if (!keys.has("rope_parameters")) return;
  const HfKeys rope = keys.object("rope_parameters");
  for (const char* nested : {"full_attention", "sliding_attention"}) {
    if (rope.has(nested)) rope[nested].refuse("numbers that all layers share");
  }
  other.rope_theta = rope.number_or("rope_theta", model.rope_theta);
  read_scaling(keys, rope, other);
  // A file may have the keys of both versions, which must agree.
  const bool said_twice = keys.has("rope_theta") || keys.has("rope_scaling");
  if (said_twice && numbers_of(model) != numbers_of(other)) {
    keys["rope_parameters"].refuse("the numbers of rope_theta and rope_scaling, which the file also has");
  }
  numbers_of(model) = numbers_of(other);
}

/// Writes them for both.
void write_rope(const ops::ModelConfig& model, JsonObject& config) {
  // yarn multiplies queries and keys whatever the factor of its frequencies.
  const bool scaled = model.rope_scaling_factor != 1.0F || model.rotary_factor() != 1.0F;
  JsonObject rope;
  if (scaled) {
    rope = scaling_json(model);
    config.add("rope_scaling", rope);
  } else {
    rope.add("rope_type", "default");
  }
  const double theta = shortest_double(model.rope_theta);
  config.add("rope_theta", theta).add("rope_parameters", rope.add("rope_theta", theta));
}

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

/// The first layer that layer_types gives a window, and as many layers as there are if none has one. Full layers come
/// first.
std::int64_t first_sliding_layer(const HfKeys& keys, std::int64_t layers) {
  const DocumentValue types = keys["layer_types"];
  const auto names = types.items(static_cast<std::size_t>(layers), "a type for every layer");
  std::int64_t first = layers;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string type = names[static_cast<std::size_t>(i)].text();
    const bool sliding = type == "sliding_attention";
    if (sliding) first = std::min(first, i);
    if (sliding || (type == "full_attention" && first == layers)) continue;
    types.refuse(
        "\"full_attention\" for the first layers and \"sliding_attention\" for the rest, the only order of "
        "layers implemented");
  }
  return first;
}

/// The window of attention, and the layers that have it. `by_default`: an absent key means this window, 0: none.
/// `switched`: the window counts only with use_sliding_window, and for layers from max_window_layers on.
void read_window(const HfKeys& keys, std::int64_t by_default, bool switched, ops::ModelConfig& model) {
  constexpr std::int64_t kMaxWindowLayers = 28;
  const bool used = !switched || keys.flag_or("use_sliding_window", false);
  std::int64_t window = used ? keys.integer_or("sliding_window", keys.mentions("sliding_window") ? 0 : by_default) : 0;
  std::int64_t from = switched ? keys.integer_or("max_window_layers", kMaxWindowLayers) : 0;
  if (used && keys.has("sliding_window") && window == 0) {
    keys["sliding_window"].refuse("a number of positions above 0, or null for none");
  }
  if (keys.has("layer_types")) {
    const std::int64_t listed = first_sliding_layer(keys, model.layers);
    if (listed < model.layers && window == 0) {
      keys["layer_types"].refuse("\"full_attention\" for every layer, as the file gives no window");
    }
    // Mistral's class ignores the list, so that one that says otherwise is a mistake.
    if (!switched && window > 0 && listed > 0) {
      keys["layer_types"].refuse("\"sliding_attention\" for every layer, or no sliding_window");
    }
    from = listed;
  }
  // A window that is never shorter than what a query sees is none.
  if (window >= model.context || from >= model.layers) return;
  model.window = window;
  model.window_from = window > 0 ? from : 0;
}

/// The numbers of a class of transformers for absent keys; 0: there is none.
struct LlamaClass {
  std::string_view type;
  std::int64_t context, kv_heads, head_size, window;
};
constexpr std::array kLlamaClasses = {LlamaClass{"llama", 2048, 0, 0, 0}, LlamaClass{"mistral", 131072, 8, 0, 4096},
                                      LlamaClass{"qwen2", 32768, 32, 0, 4096},
                                      LlamaClass{"qwen3", 32768, 32, 128, 4096}};

void read_biases(const HfKeys& keys, std::string_view type, ops::ModelConfig& model) {
  if (type == "llama" || type == "qwen3") {
    model.qkv_bias = model.out_bias = keys.flag_or("attention_bias", false);
  } else {
    keys.require("attention_bias", false);
    model.qkv_bias = type == "qwen2";
  }
  if (type == "llama") {
    model.mlp_bias = keys.flag_or("mlp_bias", false);
  } else {
    keys.require("mlp_bias", false);
  }
}

/// llama and the types that differ from it in some parts.
ops::ModelConfig read_llama(const HfKeys& keys, const LlamaClass& absent) {
  keys.require_one_of("hidden_act", {"silu", "swish"}, "\"silu\", the only activation implemented for llama");
  ops::ModelConfig model;
  model.family = ops::Family::llama;
  model.vocab = keys.integer("vocab_size");
  model.context = keys.integer_or("max_position_embeddings", absent.context);
  model.hidden = keys.integer("hidden_size");
  model.ffn = keys.integer("intermediate_size");
  model.layers = keys.integer("num_hidden_layers");
  model.heads = keys.integer("num_attention_heads");
  model.kv_heads = kv_heads(keys, model.heads, absent.kv_heads);
  model.norm_eps = keys.number_or("rms_norm_eps", 1e-6F);
  model.init_std = keys.number_or("initializer_range", 0.02F);
  model.tied = keys.flag_or("tie_word_embeddings", false);
  model.qk_norm = absent.type == "qwen3";
  read_biases(keys, absent.type, model);
  read_rope(keys, model);
  const std::int64_t head = keys.integer_or("head_dim", keys.mentions("head_dim") ? 0 : absent.head_size);
  if (keys.has("head_dim") && head == 0) keys["head_dim"].refuse("a number above 0, or null");
  const bool usual = model.heads > 0 && head * model.heads == model.hidden;
  if (!usual) model.head_size = head;
  if (absent.window == 0) {
    if (keys.has("sliding_window")) keys["sliding_window"].refuse("none: llama's class has no windows");
    if (keys.has("layer_types") && first_sliding_layer(keys, model.layers) < model.layers) {
      keys["layer_types"].refuse("\"full_attention\" for every layer of llama");
    }
  } else {
    read_window(keys, absent.window, absent.type != "mistral", model);
  }
  return model;
}

/// Refuses settings that no family of Weft has, for every model type.
void refuse_foreign_settings(const HfKeys& keys) {
  for (const NeutralSetting& setting : kNeutralSettings) keys.require(setting.key, setting.value);
  for (const char* key : kForeignSettings) {
    if (keys.has(key)) keys[key].refuse("none: the setting isn't implemented");
  }
  keys.require("use_mrope", false);
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
  names.refuse(
      "a language model: GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or "
      "Qwen3ForCausalLM");
}

ops::ModelConfig read_family(const HfKeys& keys, const std::string& type) {
  if (type == "gpt2") return read_gpt2(keys);
  for (const LlamaClass& known : kLlamaClasses) {
    if (known.type == type) return read_llama(keys, known);
  }
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

/// The type of transformers that computes what the model does; validate() admits no model without one.
std::string type_of(const ops::ModelConfig& model) {
  if (model.qk_norm) return "qwen3";
  if (model.qkv_bias && !model.out_bias) return "qwen2";
  return model.window > 0 ? "mistral" : "llama";
}

void write_window(const ops::ModelConfig& model, const std::string& type, JsonObject& config) {
  if (type == "llama") return;
  const bool windowed = model.window > 0;
  if (type == "mistral") {
    config.add("sliding_window", model.window);
    return;
  }
  config.add("use_sliding_window", windowed);
  config.add("sliding_window", windowed ? JsonValue(model.window) : JsonValue(nullptr));
  config.add("max_window_layers", windowed ? model.window_from : model.layers);
}

void write_llama(const ops::ModelConfig& model, JsonObject& config) {
  const std::string type = type_of(model);
  const char* architecture = type == "qwen3"     ? "Qwen3ForCausalLM"
                             : type == "qwen2"   ? "Qwen2ForCausalLM"
                             : type == "mistral" ? "MistralForCausalLM"
                                                 : "LlamaForCausalLM";
  config.add("architectures", JsonArray{architecture})
      .add("model_type", type)
      .add("vocab_size", model.vocab)
      .add("max_position_embeddings", model.context)
      .add("hidden_size", model.hidden)
      .add("intermediate_size", model.ffn)
      .add("num_hidden_layers", model.layers)
      .add("num_attention_heads", model.heads)
      .add("num_key_value_heads", model.kv_heads)
      .add("head_dim", model.head_dim())
      .add("hidden_act", "silu");
  if (type == "llama") config.add("mlp_bias", model.mlp_bias);
  if (type == "llama" || type == "qwen3") config.add("attention_bias", model.out_bias);
  write_window(model, type, config);
  config.add("rms_norm_eps", shortest_double(model.norm_eps));
  write_rope(model, config);
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
  return read_hf_config(whole_file(file, kMostBytesOfConfig), in_quotes(file));
}

}  // namespace weft::train
