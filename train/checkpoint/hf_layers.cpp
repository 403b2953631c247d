#include "train/checkpoint/hf_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::train {
namespace {

constexpr std::string_view kSliding = "sliding_attention", kFull = "full_attention";

/// Whether each layer has the window, by layer_types; nothing if the file has no such list.
std::optional<std::vector<bool>> listed_layers(const HfKeys& keys, std::int64_t layers) {
  if (!keys.has("layer_types")) return std::nullopt;
  std::vector<bool> sliding;
  for (const DocumentValue& type :
       keys["layer_types"].items(static_cast<std::size_t>(layers), "a type for every layer")) {
    const std::string name = type.text();
    if (name != kSliding && name != kFull) {
      type.refuse("\"full_attention\" or \"sliding_attention\", the kinds of layers implemented");
    }
    sliding.push_back(name == kSliding);
  }
  return sliding;
}

/// The same where the file has no list.
std::vector<bool> usual_layers(const HfKeys& keys, const HfType& type, const ops::ModelConfig& model) {
  constexpr std::int64_t kMaxWindowLayers = 28;
  const std::int64_t from =
      type.windows == HfWindows::switched ? keys.integer_or("max_window_layers", kMaxWindowLayers) : 0;
  const std::int64_t every =
      type.full_every > 0 ? keys.integer_or("sliding_window_pattern", type.full_every) : model.layers + 1;
  if (every == 0) keys["sliding_window_pattern"].refuse("a number of layers above 0");
  std::vector<bool> sliding;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool has = type.windows == HfWindows::unrotated ? model.unrotated_layers.contains(layer)
                                                          : layer >= from && (layer + 1) % every != 0;
    sliding.push_back(has);
  }
  return sliding;
}

/// Positions of the window; 0: none.
std::int64_t window_of(const HfKeys& keys, const HfType& type) {
  const bool has_switch = type.windows == HfWindows::switched || type.windows == HfWindows::switched_everywhere ||
                          type.windows == HfWindows::unrotated;
  const bool used = type.windows != HfWindows::none && (!has_switch || keys.flag_or("use_sliding_window", false));
  if (!used) return 0;
  const std::int64_t window = keys.integer_or("sliding_window", keys.mentions("sliding_window") ? 0 : type.window);
  if (keys.has("sliding_window") && window == 0) {
    keys["sliding_window"].refuse("a number of positions above 0, or null for none");
  }
  return window;
}

/// no_rope_layers has a 1 for layers with positions.
ops::LayerSet unrotated_layers(const HfKeys& keys, std::int64_t layers) {
  constexpr std::int64_t kInterval = 4;
  std::vector<std::int64_t> unrotated;
  if (keys.has("no_rope_layers")) {
    const auto flags = keys["no_rope_layers"].items(static_cast<std::size_t>(layers), "a 0 or 1 for every layer");
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      if (flags[static_cast<std::size_t>(layer)].integer(0, 1) == 0) unrotated.push_back(layer);
    }
    return ops::LayerSet(std::move(unrotated));
  }
  const std::int64_t interval = keys.integer_or("no_rope_layer_interval", kInterval);
  if (interval == 0) keys["no_rope_layer_interval"].refuse("a number of layers above 0");
  for (std::int64_t layer = interval - 1; layer < layers; layer += interval) unrotated.push_back(layer);
  return ops::LayerSet(std::move(unrotated));
}

/// The layers with an MLP in place of experts, by mlp_only_layers and decoder_sparse_step.
ops::LayerSet dense_layers(const HfKeys& keys, std::int64_t layers) {
  const std::int64_t step = keys.integer_or("decoder_sparse_step", 1);
  if (step == 0) keys["decoder_sparse_step"].refuse("a number of layers above 0");
  std::set<std::int64_t> dense;
  if (keys.has("mlp_only_layers")) {
    for (const DocumentValue& layer : keys["mlp_only_layers"].items("a list of layers")) {
      dense.insert(layer.integer(0, ops::kMostLayers));
    }
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if ((layer + 1) % step != 0) dense.insert(layer);
  }
  return ops::LayerSet(std::vector(dense.begin(), dense.lower_bound(layers)));
}

/// Of two names that mean one number, the type's own or the other.
std::int64_t expert_count(const HfKeys& keys, const HfExperts& type) {
  std::optional<std::int64_t> count;
  for (const char* const key : kExpertCounts) {
    if (!keys.has(key)) continue;
    const std::int64_t found = keys.integer(key);
    if (count && found != *count) {
      keys[key].refuse(fmt::format("{}, as {} says: both names mean one number", *count, kExpertCounts.front()));
    }
    count = found;
  }
  return count.value_or(type.experts);
}

std::vector<std::string> layer_types(const ops::ModelConfig& model) {
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    types.emplace_back(model.window_of(layer) > 0 ? kSliding : kFull);
  }
  return types;
}

}  // namespace

void read_layers(const HfKeys& keys, const HfType& type, ops::ModelConfig& model) {
  if (model.layers > ops::kMostLayers) return;  // validate() refuses them
  if (type.windows == HfWindows::unrotated) model.unrotated_layers = unrotated_layers(keys, model.layers);
  if (type.windows == HfWindows::none && keys.has("sliding_window")) {
    keys["sliding_window"].refuse(fmt::format("none: {}'s class has no windows", type.type));
  }
  const std::int64_t window = window_of(keys, type);
  const auto listed = listed_layers(keys, model.layers);
  const bool any_listed = listed && std::ranges::count(*listed, true) > 0;
  if (type.windows == HfWindows::none && any_listed) {
    keys["layer_types"].refuse(fmt::format("\"full_attention\" for every layer of {}", type.type));
  }
  if (any_listed && window == 0) {
    keys["layer_types"].refuse("\"full_attention\" for every layer, as the file gives no window");
  }
  // These classes ignore the list, so that one that says otherwise is a mistake.
  const bool everywhere = type.windows == HfWindows::everywhere || type.windows == HfWindows::switched_everywhere;
  if (everywhere && window > 0 && listed && std::ranges::count(*listed, false) > 0) {
    keys["layer_types"].refuse(
        "\"sliding_attention\" for every layer, or no sliding_window; model_type ministral has both kinds of layers");
  }
  if (type.windows == HfWindows::switched_everywhere && window > 0) keys.require("max_window_layers", 0);
  const std::vector<bool> sliding = listed ? *listed : usual_layers(keys, type, model);
  const auto first = std::ranges::find(sliding, true);
  // A window that is never shorter than what a query sees is none, unless its layers have rotations of their own.
  if (window == 0 || first == sliding.end() || (window >= model.context && !type.has_local_rope())) return;
  model.window = window;
  model.window_from = first - sliding.begin();
  std::vector<std::int64_t> full;
  for (std::int64_t layer = model.window_from; layer < model.layers; ++layer) {
    if (!sliding[static_cast<std::size_t>(layer)]) full.push_back(layer);
  }
  model.full_layers = ops::LayerSet(std::move(full));
}

void write_layers(const ops::ModelConfig& model, const HfType& type, JsonObject& config) {
  const bool windowed = model.window > 0;
  const JsonValue window = windowed ? JsonValue(model.window) : JsonValue(nullptr);
  switch (type.windows) {
    case HfWindows::none:
      return;
    case HfWindows::everywhere:
      config.add("sliding_window", window);
      return;
    case HfWindows::switched_everywhere:
      config.add("use_sliding_window", windowed).add("sliding_window", window);
      return;
    case HfWindows::listed:
      config.add("sliding_window", window).add("layer_types", layer_types(model));
      return;
    case HfWindows::switched:
      config.add("use_sliding_window", windowed).add("sliding_window", window);
      config.add("max_window_layers", windowed ? model.window_from : model.layers);
      if (!model.full_layers.below(model.layers).empty()) config.add("layer_types", layer_types(model));
      return;
    case HfWindows::unrotated:
      break;
  }
  std::vector<std::int64_t> rotated;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) rotated.push_back(model.rotates(layer) ? 1 : 0);
  config.add("use_sliding_window", windowed).add("sliding_window", window);
  config.add("no_rope_layers", rotated).add("layer_types", layer_types(model));
}

void read_experts(const HfKeys& keys, const HfType& type, ops::ModelConfig& model) {
  if (!type.has_experts()) return;
  // Settings with which the model computes another loss, or noise.
  keys.require("output_router_logits", false);
  keys.require("router_jitter_noise", 0.0);
  model.experts = expert_count(keys, type.experts);
  model.experts_per_token = keys.integer_or("num_experts_per_tok", type.experts.per_token);
  if (type.experts.width == 0) return;
  const std::int64_t width = keys.integer_or("moe_intermediate_size", type.experts.width);
  if (width == 0) keys["moe_intermediate_size"].refuse("a number above 0");
  if (width != model.ffn) model.expert_ffn = width;
  model.normalise_experts = keys.flag_or("norm_topk_prob", false);
  if (model.layers <= ops::kMostLayers) model.dense_layers = dense_layers(keys, model.layers);
}

void write_experts(const ops::ModelConfig& model, const HfType& type, JsonObject& config) {
  if (!type.has_experts()) return;
  config.add(type.experts.count, model.experts)
      .add("num_experts_per_tok", model.experts_per_token)
      .add("output_router_logits", false);
  if (type.experts.width == 0) return;
  std::vector<std::int64_t> dense;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!model.has_experts(layer)) dense.push_back(layer);
  }
  config.add("moe_intermediate_size", model.expert_cols())
      .add("norm_topk_prob", model.normalise_experts)
      .add("decoder_sparse_step", 1)
      .add("mlp_only_layers", dense);
}

}  // namespace weft::train
