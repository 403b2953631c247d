// PEFT's adapter_config.json: what the adapters of a folder are, read and written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/model_config.h"

namespace weft::train {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";

/// The fix where an adapter is of a kind that Weft doesn't compute.
inline constexpr const char* kMergeInPeft =
    "merge it with PEFT, model.merge_and_unload().save_pretrained(FOLDER), and give that folder as the model";

/// What the file says. Which modules have adapters is told by the tensors beside it, as PEFT wrote them.
struct PeftConfig {
  std::int64_t rank = 8;
  float alpha = 8.0F;
  bool rslora = false;
  std::string base;  // the model below, as its file calls it; may be empty
  /// Ends of modules' names, each with what these modules have in place of `rank` and `alpha`.
  std::vector<std::pair<std::string, std::int64_t>> ranks = {};
  std::vector<std::pair<std::string, float>> alphas = {};
  /// Ends of the names of all modules with adapters; none: the file has a regular expression, or nothing.
  std::optional<std::vector<std::string>> targets = {};
  std::string layers;  // a restriction to some layers, as the file has it; empty: none
};

/// Whether the name of a module ends with one that a list gives: "q_proj" of "model.layers.0.self_attn.q_proj".
bool is_module(std::string_view name, std::string_view end);

/// `name` stands for the file in messages. Throws UserError on what isn't LoRA as Weft computes it (DoRA, biases, whole
/// modules, embeddings, changed bases, …), by the member that says so, and on unknown members that aren't empty.
PeftConfig read_peft_config(std::string_view json_text, const std::string& name, ops::Family family);

/// The adapter_config.json of a model with adapters. `base`: the name or folder of the model below them, as people know
/// it; empty: null.
std::string peft_config_json(const ops::ModelConfig& model, const std::string& base);

}  // namespace weft::train
