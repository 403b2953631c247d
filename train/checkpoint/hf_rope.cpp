#include "train/checkpoint/hf_rope.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>

#include "base/text/json_object.h"

namespace weft::train {
namespace {

using ops::RopeKind;

constexpr const char *kFullLayers = "full_attention", *kLocalLayers = "sliding_attention";

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
                  model.rope_truncate, model.rope_local_theta);
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

/// The base of layers with a window: "rope_local_base_freq" (gemma3), or the one of all layers.
constexpr const char* kLocalBase = "rope_local_base_freq";

/// transformers 4. Layers with a window have unscaled frequencies.
void read_flat(const HfKeys& keys, const HfType& type, ops::ModelConfig& model) {
  model.rope_theta = keys.number_or("rope_theta", type.theta);
  // Files between transformers 4 and 5 have it among the numbers of the scaling.
  if (keys.has("rope_scaling") && keys.object("rope_scaling").has("rope_theta")) {
    const float inside = keys.object("rope_scaling").number_or("rope_theta", 0.0F);
    if (keys.has("rope_theta") && inside != model.rope_theta) {
      keys["rope_scaling"]["rope_theta"].refuse("rope_theta's number, which the file also has");
    }
    model.rope_theta = inside;
  }
  if (keys.has("rope_scaling")) read_scaling(keys, keys.object("rope_scaling"), model);
  if (!type.has_local_rope() || model.window == 0) return;
  const bool one_base = type.local_theta == type.theta;
  // transformers 5 takes its own base for layers with a window then, where 4 takes the file's.
  if (one_base && model.rope_theta != type.theta && !keys.has("rope_parameters")) {
    keys["rope_theta"].refuse("rope_parameters with numbers for \"full_attention\" and \"sliding_attention\"");
  }
  model.rope_local_theta = one_base ? model.rope_theta : keys.number_or(kLocalBase, type.local_theta);
}

/// transformers 5: numbers of all layers, or of each kind of layers.
void read_nested(const HfKeys& keys, const HfType& type, ops::ModelConfig& model) {
  const HfKeys rope = keys.object("rope_parameters");
  if (!type.has_local_rope()) {
    for (const char* nested : {kFullLayers, kLocalLayers}) {
      if (rope.has(nested)) rope[nested].refuse("numbers that all layers share");
    }
    model.rope_theta = rope.number_or("rope_theta", keys.number_or("rope_theta", type.theta));
    return read_scaling(keys, rope, model);
  }
  model.rope_theta = type.theta;
  if (rope.has(kFullLayers)) {
    const HfKeys full = rope.object(kFullLayers);
    model.rope_theta = full.number_or("rope_theta", type.theta);
    read_scaling(keys, full, model);
  } else if (!rope.has(kLocalLayers)) {
    keys["rope_parameters"].refuse("numbers for \"full_attention\" and \"sliding_attention\"");
  }
  if (model.window == 0) return;
  ops::ModelConfig local;
  local.context = model.context;
  local.rope_theta = type.local_theta;
  if (rope.has(kLocalLayers)) {
    const HfKeys sliding = rope.object(kLocalLayers);
    local.rope_theta = sliding.number_or("rope_theta", type.local_theta);
    read_scaling(keys, sliding, local);
  }
  const bool scaled = local.rope_scaling_factor != 1.0F || local.rotary_factor() != 1.0F;
  if (scaled && numbers_of(local) != numbers_of(model)) {
    rope[kLocalLayers].refuse("unscaled frequencies, or the numbers of \"full_attention\"");
  }
  model.rope_local_theta = scaled ? 0.0F : local.rope_theta;
}

JsonObject parameters_json(const ops::ModelConfig& model, bool scaled, float theta) {
  JsonObject rope = scaled ? scaling_json(model) : JsonObject().add("rope_type", "default");
  return rope.add("rope_theta", shortest_double(theta));
}

}  // namespace

void read_rope(const HfKeys& keys, const HfType& type, ops::ModelConfig& model) {
  ops::ModelConfig nested = model;
  read_flat(keys, type, model);
  if (!keys.has("rope_parameters")) return;
  read_nested(keys, type, nested);
  // A file may have the keys of both versions, which must agree.
  const bool said_twice = keys.has("rope_theta") || keys.has("rope_scaling");
  if (said_twice && numbers_of(model) != numbers_of(nested)) {
    keys["rope_parameters"].refuse("the numbers of rope_theta and rope_scaling, which the file also has");
  }
  numbers_of(model) = numbers_of(nested);
}

void write_rope(const ops::ModelConfig& model, const HfType& type, JsonObject& config) {
  // yarn multiplies queries and keys whatever the factor of its frequencies.
  const bool scaled = model.rope_scaling_factor != 1.0F || model.rotary_factor() != 1.0F;
  const JsonObject of_all = parameters_json(model, scaled, model.rope_theta);
  const bool own = model.rope_local_theta != 0.0F;
  const bool has_local_base = type.local_theta != type.theta;
  // transformers 4 has no keys for some numbers of layers with a window.
  const bool flat =
      !type.has_local_rope() || model.window == 0 || has_local_base || model.rope_local_theta == model.rope_theta;
  if (flat && scaled) config.add("rope_scaling", scaling_json(model));
  if (flat) config.add("rope_theta", shortest_double(model.rope_theta));
  if (!type.has_local_rope()) {
    config.add("rope_parameters", of_all);
    return;
  }
  if (flat && has_local_base) config.add(kLocalBase, shortest_double(own ? model.rope_local_theta : model.rope_theta));
  config.add("rope_parameters",
             JsonObject()
                 .add(kFullLayers, of_all)
                 .add(kLocalLayers, own ? parameters_json(model, false, model.rope_local_theta) : of_all));
}

}  // namespace weft::train
