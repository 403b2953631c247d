#include "train/checkpoint/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "base/files/document.h"
#include "base/text/json_object.h"
#include "ops/lora_parameters.h"

namespace weft::train {
namespace {

/// Members that change no number of a trained adapter, whatever they are.
constexpr std::array<std::string_view, 20> kHarmless = {
    "auto_mapping",    "base_model_name_or_path", "corda_config",   "ensure_weight_tying", "eva_config",
    "exclude_modules", "inference_mode",          "layers_pattern", "layers_to_transform", "loftq_config",
    "lora_dropout",    "lora_ga_config",          "megatron_core",  "peft_version",        "qalora_group_size",
    "revision",        "runtime_config",          "target_modules", "task_type",           "velora_config"};

/// Members that are read.
constexpr std::array<std::string_view, 9> kRead = {
    "alpha_pattern",     "bias", "fan_in_fan_out", "lora_alpha", "peft_type",
    "init_lora_weights", "r",    "rank_pattern",   "use_rslora"};

/// Members that make another adapter, and how.
struct Other {
  std::string_view key, what;
};
constexpr std::array<Other, 13> kOthers = {
    Other{"alora_invocation_tokens", "aLoRA, which acts after some tokens alone"},
    Other{"arrow_config", "a choice among several adapters"},
    Other{"kasa_config", "KaSA, which has singular values too"},
    Other{"layer_replication", "layers that are repeated"},
    Other{"lora_bias", "biases of the adapters' B"},
    Other{"megatron_config", "layers of Megatron"},
    Other{"modules_to_save", "whole modules that were trained beside the adapters"},
    Other{"monteclora_config", "MonteCLoRA, which draws its weights"},
    Other{"target_parameters", "adapters of parameters that are no linear layers"},
    Other{"trainable_token_indices", "rows of the embedding that were trained beside the adapters"},
    Other{"use_bdlora", "BD-LoRA, whose matrices are block-diagonal"},
    Other{"use_dora", "DoRA, which scales the rows of the sum"},
    Other{"use_qalora", "QALoRA, which pools the inputs"}};

/// null, false, and lists, objects and texts without anything.
bool is_nothing(const DocumentValue& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.boolean();
  if (value.is_list()) return value.items().empty();
  if (value.is_object()) return value.members().empty();
  return value.is_text() && value.text().empty();
}

void refuse_others(const DocumentValue& root) {
  for (const auto& [key, value] : root.members()) {
    if (is_nothing(value)) continue;
    const auto other = std::ranges::find(kOthers, key, &Other::key);
    if (other != kOthers.end()) value.refuse(fmt::format("means {}", other->what), "adapters of linear layers alone");
    const bool known = std::ranges::count(kRead, key) + std::ranges::count(kHarmless, key) > 0;
    if (!known) value.refuse("is a setting that Weft doesn't know", "a LoRA adapter without it");
  }
}

/// Some ways to begin change the base too, so that the adapter fits no model that is saved elsewhere.
void expect_own_base(const DocumentValue& root) {
  const auto init = root.given("init_lora_weights");
  if (!init || init->is_boolean()) return;
  constexpr std::array<std::string_view, 3> kKeepTheBase = {"gaussian", "eva", "orthogonal"};
  if (std::ranges::count(kKeepTheBase, init->text()) > 0) return;
  init->refuse(fmt::format("is {}, which changes the base too", init->shown()),
               "an adapter of the base as it is: true, false, \"gaussian\", \"eva\" or \"orthogonal\"");
}

/// What the modules of a pattern have; its keys are the ends of names.
template <class Value, class Read>
std::vector<std::pair<std::string, Value>> pattern_of(const DocumentValue& root, const char* key, const Read& read) {
  std::vector<std::pair<std::string, Value>> pattern;
  const auto given = root.given(key);
  if (!given) return pattern;
  for (const auto& [name, value] : given->members()) {
    const bool plain = std::ranges::all_of(
        name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-'; });
    if (!plain) value.refuse("belongs to a regular expression", "the names of modules, or the ends of their names");
    pattern.emplace_back(name, read(value));
  }
  return pattern;
}

std::int64_t rank_from(const DocumentValue& value) {
  return value.integer(1, 1 << 20);
}

float alpha_from(const DocumentValue& value) {
  return static_cast<float>(value.number({.least = 0, .most = 1e6, .above = true}));
}

// The end of a module's name that tells it from all others: "q_proj". GPT-2 has a c_proj in attention and one in the
// MLP, so that its names need two parts: "attn.c_proj".
std::string target_module(ops::Family family, std::string_view stored) {
  const std::string_view module = stored.substr(0, stored.rfind(".lora_"));
  std::size_t dot = module.rfind('.');
  if (ops::parts_of(family).stored->transposed) dot = module.rfind('.', dot - 1);
  return std::string(module.substr(dot + 1));
}

JsonValue number_json(float number) {
  const bool whole = number == std::floor(number);
  return whole ? JsonValue(static_cast<std::int64_t>(number)) : JsonValue(static_cast<double>(number));
}

template <class Value, class Print>
JsonObject object_of(const std::map<std::string, Value>& values, const Print& print) {
  JsonObject object;
  for (const auto& [key, value] : values) object.add(key, print(value));
  return object;
}

/// Of all modules with adapters, by the name that tells PEFT which they are.
struct Targets {
  std::set<std::string> modules = {};
  std::map<std::string, std::int64_t> ranks = {};  // that differ from `rank`
  std::map<std::string, float> alphas = {};
};

Targets targets_of(const ops::ModelConfig& model) {
  Targets targets;
  ops::ModelConfig base = model;
  base.lora = {};
  for (const ops::ParameterSpec& weight : ops::model_parameters(base)) {
    for (const ops::StoredTensor& stored : weight.stored) {
      const ops::LoraModules modules = ops::modules_of(base, weight, stored) & model.lora.on;
      for (const ops::LoraModule module : ops::kLoraModules) {
        if ((modules & ops::only(module)).none()) continue;
        const std::string name =
            target_module(model.family, stored.name.substr(0, stored.name.rfind(".weight")) + ops::kLoraA);
        targets.modules.insert(name);
        const std::int64_t rank = model.lora.rank_of(module);
        const float alpha = model.lora.alpha_of(module);
        if (rank != model.lora.rank) targets.ranks[name] = rank;
        if (alpha != model.lora.alpha) targets.alphas[name] = alpha;
      }
    }
  }
  return targets;
}

}  // namespace

bool is_module(std::string_view name, std::string_view end) {
  return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
}

PeftConfig read_peft_config(std::string_view json_text, const std::string& name, ops::Family family) {
  const Document document = read_json(json_text, name, {.fix = kMergeInPeft});
  const DocumentValue root = document.root();
  if (const DocumentValue type = root["peft_type"]; type.text() != "LORA") type.refuse("\"LORA\"");
  if (const auto bias = root.given("bias"); bias && bias->text() != "none") {
    bias->refuse(fmt::format("is {}: biases were trained beside the adapters", bias->shown()), "\"none\"");
  }
  refuse_others(root);
  expect_own_base(root);
  if (const auto transposed = root.given("fan_in_fan_out")) {
    const bool expected = ops::parts_of(family).stored->transposed;
    if (transposed->boolean() != expected) {
      transposed->refuse(fmt::format("is {}, of layers that are stored {}", transposed->shown(),
                                     expected ? "[out, in]" : "[in, out] (Conv1D)"),
                         fmt::format("{} for a model of family {}", expected, ops::to_string(family)));
    }
  }
  PeftConfig config;
  if (const auto rank = root.given("r")) config.rank = rank_from(*rank);
  if (const auto alpha = root.given("lora_alpha")) config.alpha = alpha_from(*alpha);
  if (const auto rslora = root.given("use_rslora")) config.rslora = rslora->boolean();
  if (const auto base = root.given("base_model_name_or_path")) config.base = base->text();
  config.ranks = pattern_of<std::int64_t>(root, "rank_pattern", rank_from);
  config.alphas = pattern_of<float>(root, "alpha_pattern", alpha_from);
  if (const auto targets = root.given("target_modules"); targets && targets->is_list()) {
    config.targets.emplace();
    for (const DocumentValue& target : targets->items()) config.targets->push_back(target.text());
  }
  if (const auto layers = root.given("layers_to_transform"); layers && !is_nothing(*layers)) {
    config.layers = layers->shown();
  }
  return config;
}

std::string peft_config_json(const ops::ModelConfig& model, const std::string& base) {
  const Targets targets = targets_of(model);
  JsonObject json;
  json.add("alpha_pattern", object_of(targets.alphas, number_json))
      .add("base_model_name_or_path", base.empty() ? JsonValue(nullptr) : JsonValue(base))
      .add("bias", "none")
      .add("fan_in_fan_out", model.parts().stored->transposed)
      .add("inference_mode", true)
      .add("init_lora_weights", true)
      .add("lora_alpha", number_json(model.lora.alpha))
      .add("lora_dropout", 0.0)
      .add("modules_to_save", nullptr)
      .add("peft_type", "LORA")
      .add("r", model.lora.rank)
      .add("rank_pattern", object_of(targets.ranks, [](std::int64_t rank) { return JsonValue(rank); }))
      .add("target_modules", targets.modules)
      .add("task_type", "CAUSAL_LM")
      .add("use_rslora", model.lora.rslora);
  return indented_json(json.text()) + "\n";
}

}  // namespace weft::train
