// The model types of Hugging Face that Weft has, one row of data each, and the reasons for which it has no others.
// Internal to train/checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ops/model_config.h"

namespace weft::train {

/// How a type says which layers have a window.
enum class HfWindows : std::uint8_t {
  none,
  everywhere,           // sliding_window, in all layers
  listed,               // layer_types, or all but every n-th layer
  switched,             // use_sliding_window, with layer_types or max_window_layers
  switched_everywhere,  // use_sliding_window, in all layers
  unrotated             // use_sliding_window, with layer_types or else the layers without positions
};

/// How a type says what experts its layers have, and the numbers of its class for absent keys.
struct HfExperts {
  const char* count = nullptr;  // the key of their number; null: the type has none
  std::int64_t experts = 0, per_token = 0;
  std::int64_t width = 0;  // of moe_intermediate_size; 0: experts are as wide as intermediate_size says, in all layers
};

/// A type, and the numbers of its class in transformers for absent keys; 0: there is none.
struct HfType {
  std::string_view type, architecture;
  ops::Family family;
  std::int64_t context, kv_heads, head_size, window, full_every;  // full_every: every n-th layer has no window
  float norm_eps, theta, local_theta;                             // local: of layers with a window
  bool tied;
  bool attention_bias, mlp_bias;  // whether the type has the setting
  HfWindows windows;
  bool query_scalar;  // attention's scores are divided by the root of query_pre_attn_scalar
  HfExperts experts = {};

  ops::QueryKeyNorm query_key_norm() const;
  /// Whether layers with a window have rotary numbers of their own.
  bool has_local_rope() const { return ops::parts_of(family).has_key("rope-local-theta"); }
  bool has_experts() const { return experts.count != nullptr; }
};

/// All but gpt2, whose keys have names of their own.
std::span<const HfType> hf_types();

/// The type of transformers that computes what the model does; validate() admits no model without one.
const HfType& hf_type_of(const ops::ModelConfig& model);

/// The names of all types, gpt2 first: "gpt2, llama or phi3".
std::string hf_type_names();
/// The classes of all types, in the same way.
std::string hf_class_names();

/// A part of another type that Weft doesn't compute; empty if it isn't known.
std::string_view foreign_part(std::string_view type);

}  // namespace weft::train
