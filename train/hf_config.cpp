// One reader and one writer a family; keys as in transformers' configuration_gpt2.py and configuration_llama.py.
#include "train/hf_config.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLargest = 1'000'000'000;  // of sizes: products of two of them are no overflow
constexpr const char* kFix = "give the config.json of a GPT2LMHeadModel or LlamaForCausalLM with that setting";

/// Typed access to one object of a config, with messages that name file and key.
class Keys {
 public:
  Keys(const json& object, const std::string& file) : object_(object), file_(file) {}

  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  std::int64_t integer(const char* key) const {
    const std::string expected = fmt::format("a whole number from 0 to {}", kLargest);
    if (!has(key)) throw UserError(fmt::format("{} has no {}", file_, key), expected, kFix);
    // An integer that isn't negative is unsigned.
    if (!object_[key].is_number_unsigned() || object_[key].get<std::uint64_t>() > kLargest) refuse(key, expected);
    return static_cast<std::int64_t>(object_[key].get<std::uint64_t>());
  }
  std::int64_t integer_or(const char* key, std::int64_t absent) const { return has(key) ? integer(key) : absent; }
  float number_or(const char* key, float absent) const {
    if (!has(key)) return absent;
    constexpr double kMost = std::numeric_limits<float>::max();
    if (!object_[key].is_number() || std::abs(object_[key].get<double>()) > kMost) {
      refuse(key, "a number that a float holds");
    }
    return static_cast<float>(object_[key].get<double>());
  }
  bool flag_or(const char* key, bool absent) const {
    if (!has(key)) return absent;
    if (!object_[key].is_boolean()) refuse(key, "true or false");
    return object_[key].get<bool>();
  }
  std::string text_or(const char* key, const char* absent) const {
    if (!has(key)) return absent;
    if (!object_[key].is_string()) refuse(key, "a text");
    return object_[key].get<std::string>();
  }
  /// Refuses a setting that is present with another value than the one Weft computes.
  void require(const char* key, const json& value) const {
    if (has(key) && object_[key] != value) refuse(key, value.dump() + ", the only value implemented");
  }

  [[noreturn]] void refuse(const char* key, const std::string& expected) const {
    throw UserError(fmt::format("{}: {} is {}", file_, key, object_[key].dump()), expected, kFix);
  }
  Keys object(const char* key) const {
    if (!object_[key].is_object()) refuse(key, "an object");
    return {object_[key], file_};
  }

 private:
  const json& object_;
  const std::string& file_;
};

ModelConfig read_gpt2(const Keys& keys) {
  keys.require("activation_function", "gelu_new");
  keys.require("scale_attn_weights", true);
  keys.require("scale_attn_by_inverse_layer_idx", false);
  keys.require("reorder_and_upcast_attn", false);
  keys.require("add_cross_attention", false);
  ModelConfig model;
  model.family = Family::gpt2;
  model.vocab = keys.integer("vocab_size");
  model.context = keys.has("n_positions") ? keys.integer("n_positions") : keys.integer("n_ctx");
  model.hidden = keys.integer("n_embd");
  model.layers = keys.integer("n_layer");
  model.heads = model.kv_heads = keys.integer("n_head");
  model.ffn = keys.integer_or("n_inner", 4 * model.hidden);
  model.norm_eps = keys.number_or("layer_norm_epsilon", 1e-5F);
  model.init_std = keys.number_or("initializer_range", 0.02F);
  model.tied = keys.flag_or("tie_word_embeddings", true);
  return model;
}

/// `rope`: where the type and its numbers stand: rope_scaling (transformers 4) or rope_parameters (5).
void read_rope_scaling(const Keys& rope, ModelConfig& model) {
  const char* type_key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text_or(type_key, "default");
  if (type == "default") return;
  if (type != "llama3") rope.refuse(type_key, "\"default\" or \"llama3\", the kinds of RoPE implemented");
  model.rope_scaling_factor = rope.number_or("factor", model.rope_scaling_factor);
  model.rope_low_freq_factor = rope.number_or("low_freq_factor", model.rope_low_freq_factor);
  model.rope_high_freq_factor = rope.number_or("high_freq_factor", model.rope_high_freq_factor);
  model.rope_original_context = static_cast<float>(
      rope.integer_or("original_max_position_embeddings", static_cast<std::int64_t>(model.rope_original_context)));
}

ModelConfig read_llama(const Keys& keys) {
  keys.require("hidden_act", "silu");
  keys.require("attention_bias", false);
  keys.require("mlp_bias", false);
  ModelConfig model;
  model.family = Family::llama;
  model.vocab = keys.integer("vocab_size");
  model.context = keys.integer_or("max_position_embeddings", 2048);
  model.hidden = keys.integer("hidden_size");
  model.ffn = keys.integer("intermediate_size");
  model.layers = keys.integer("num_hidden_layers");
  model.heads = keys.integer("num_attention_heads");
  model.kv_heads = keys.integer_or("num_key_value_heads", model.heads);
  model.norm_eps = keys.number_or("rms_norm_eps", 1e-6F);
  model.init_std = keys.number_or("initializer_range", 0.02F);
  model.tied = keys.flag_or("tie_word_embeddings", false);
  model.rope_theta = keys.number_or("rope_theta", 10000.0F);
  if (keys.has("rope_scaling")) read_rope_scaling(keys.object("rope_scaling"), model);
  if (keys.has("rope_parameters")) {
    const Keys rope = keys.object("rope_parameters");
    model.rope_theta = rope.number_or("rope_theta", model.rope_theta);
    read_rope_scaling(rope, model);
  }
  if (keys.has("head_dim") && keys.integer("head_dim") * model.heads != model.hidden) {
    keys.refuse("head_dim", fmt::format("hidden_size / num_attention_heads = {} / {}", model.hidden, model.heads));
  }
  return model;
}

void write_gpt2(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["architectures"] = {"GPT2LMHeadModel"};
  config["model_type"] = "gpt2";
  config["vocab_size"] = model.vocab;
  config["n_positions"] = config["n_ctx"] = model.context;
  config["n_embd"] = model.hidden;
  config["n_layer"] = model.layers;
  config["n_head"] = model.heads;
  config["n_inner"] = model.ffn;
  config["activation_function"] = "gelu_new";
  config["layer_norm_epsilon"] = shortest_double(model.norm_eps);
  // Off, whatever the run used: these act where the file is loaded.
  for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) config[dropout] = 0.0;
  config["scale_attn_weights"] = true;
}

void write_llama(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["architectures"] = {"LlamaForCausalLM"};
  config["model_type"] = "llama";
  config["vocab_size"] = model.vocab;
  config["max_position_embeddings"] = model.context;
  config["hidden_size"] = model.hidden;
  config["intermediate_size"] = model.ffn;
  config["num_hidden_layers"] = model.layers;
  config["num_attention_heads"] = model.heads;
  config["num_key_value_heads"] = model.kv_heads;
  config["head_dim"] = model.head_dim();
  config["hidden_act"] = "silu";
  config["attention_bias"] = config["mlp_bias"] = false;
  config["rms_norm_eps"] = shortest_double(model.norm_eps);
  nlohmann::ordered_json rope;
  if (model.rope_scaling_factor != 1.0F) {
    rope["rope_type"] = "llama3";
    rope["factor"] = shortest_double(model.rope_scaling_factor);
    rope["low_freq_factor"] = shortest_double(model.rope_low_freq_factor);
    rope["high_freq_factor"] = shortest_double(model.rope_high_freq_factor);
    rope["original_max_position_embeddings"] = static_cast<std::int64_t>(model.rope_original_context);
    config["rope_scaling"] = rope;
  } else {
    rope["rope_type"] = "default";
  }
  rope["rope_theta"] = config["rope_theta"] = shortest_double(model.rope_theta);
  config["rope_parameters"] = rope;
}

}  // namespace

std::string hf_config_json(const ModelConfig& model, DType dtype) {
  nlohmann::ordered_json config;
  if (model.family == Family::gpt2) {
    write_gpt2(model, config);
  } else {
    write_llama(model, config);
  }
  config["initializer_range"] = shortest_double(model.init_std);
  config["tie_word_embeddings"] = model.tied;
  config["torch_dtype"] = dtype == DType::bf16 ? "bfloat16" : "float32";
  // The byte tokenizer's and GPT-2's end-of-text; otherwise the tokenizer's files have to say.
  if (model.vocab == 257 || model.vocab == 50257) config["bos_token_id"] = config["eos_token_id"] = model.vocab - 1;
  return config.dump(2) + "\n";
}

ModelConfig model_from_hf_config(std::string_view json_text, const std::string& name) {
  const json config = parse_json(json_text, name);
  if (!config.is_object()) throw UserError(name + " isn't an object", "a config.json of Hugging Face", kFix);
  const Keys keys(config, name);
  const std::string type = keys.text_or("model_type", "absent");
  ModelConfig model;
  if (type == "gpt2") {
    model = read_gpt2(keys);
  } else if (type == "llama") {
    model = read_llama(keys);
  } else {
    throw UserError(fmt::format("{}: model_type is {}", name, type), "gpt2 or llama, the families implemented", kFix);
  }
  try {
    validate(model);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", name, error.what()), "", "");
  }
  return model;
}

}  // namespace weft
