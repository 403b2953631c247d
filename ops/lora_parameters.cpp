#include "ops/lora_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ops/family.h"

namespace weft::ops {
namespace {

// The name that PEFT gives to a matrix of the adapter of a stored one: "base_model.model." and the name of the module
// with the prefix that transformers' class gives it.
std::string stored_adapter(Family family, std::string_view weight, const char* matrix) {
  const std::string_view module = weight.substr(0, weight.rfind(".weight"));
  return fmt::format("base_model.model.{}{}{}", parts_of(family).stored->prefix, module, matrix);
}

// A module of the set; all of them have one rank and alpha.
LoraModule first_of(const LoraModules& modules) {
  return *std::ranges::find_if(kLoraModules, [&](LoraModule module) { return (modules & only(module)).any(); });
}

// Tensors of a matrix whose adapters have one rank and one scale.
struct Adapted {
  std::int64_t rank = 0;
  float scale = 0.0F;
  std::vector<const StoredTensor*> stored;
};

std::vector<Adapted> adapted_tensors(const ModelConfig& model, const ParameterSpec& weight) {
  std::vector<Adapted> found;
  for (const StoredTensor& stored : weight.stored) {
    const LoraModules modules = modules_of(model, weight, stored);
    if ((modules & model.lora.on).none()) continue;
    const LoraModule first = first_of(modules);
    const std::int64_t rank = model.lora.rank_of(first);
    const float scale = model.lora.scale_of(first);
    auto same = std::ranges::find_if(found, [&](const Adapted& a) { return a.rank == rank && a.scale == scale; });
    if (same == found.end()) same = found.insert(found.end(), {rank, scale, {}});
    same->stored.push_back(&stored);
  }
  return found;
}

// A starts as PEFT's does (Kaiming's uniform values with a = √5), B at zero, so that the model starts as it was.
// `number`: of the adapters of the matrix.
std::pair<ParameterSpec, ParameterSpec> adapter_of(Family family, const ParameterSpec& weight, const Adapted& adapted,
                                                   std::size_t number) {
  const std::string layer = weight.name.substr(0, weight.name.rfind(".weight"));
  const std::string ending = number == 0 ? "" : std::to_string(number + 1);
  const float bound = 1 / std::sqrt(static_cast<float>(weight.cols));
  ParameterSpec a{fmt::format("{}.lora_A{}.weight", layer, ending), 0, weight.cols, true, Init::uniform, bound, 0, {}};
  ParameterSpec b{fmt::format("{}.lora_B{}.weight", layer, ending), 0, adapted.rank, true, Init::zeros, 0.0F, 0, {}};
  a.adapter = AdapterPart{weight.name, AdapterSide::a, adapted.rank, adapted.scale, {}};
  for (const StoredTensor* const stored : adapted.stored) {
    a.stored.push_back({stored_adapter(family, stored->name, kLoraA), a.rows, adapted.rank, false});
    b.stored.push_back({stored_adapter(family, stored->name, kLoraB), b.rows, stored->rows, false});
    a.adapter->rows.push_back(stored->row_begin);
    a.rows += adapted.rank;
    b.rows += stored->rows;
  }
  b.adapter = a.adapter;
  b.adapter->side = AdapterSide::b;
  return {std::move(a), std::move(b)};
}

void refuse_parts_of_packed(const ModelConfig& model, const ParameterSpec& weight) {
  const LoraConfig& lora = model.lora;
  for (const StoredTensor& stored : weight.stored) {
    const LoraModules modules = modules_of(model, weight, stored);
    const LoraModules chosen = modules & lora.on;
    if (chosen.none()) continue;
    const LoraModule first = first_of(modules);
    const bool alike = std::ranges::all_of(kLoraModules, [&](LoraModule module) {
      return (modules & only(module)).none() ||
             (lora.rank_of(module) == lora.rank_of(first) && lora.alpha_of(module) == lora.alpha_of(first));
    });
    if (chosen == modules && alike) continue;
    throw UserError(
        fmt::format("lora = {}, and {} stores {} together", to_string(lora), stored.name, to_string(modules)),
        "one adapter for all of a tensor",
        fmt::format("write on={} with one rank and alpha for them", to_string(lora.on | modules)));
  }
}

}  // namespace

LoraModules modules_of(const ModelConfig& model, const ParameterSpec& weight, const StoredTensor& stored) {
  const std::string_view name = weight.name;
  const bool whole = weight.stored.size() == 1;
  const auto number = static_cast<std::size_t>(&stored - weight.stored.data());
  const auto from = [&](LoraModule first) {
    return only(static_cast<LoraModule>(static_cast<std::size_t>(first) + number));
  };
  if (name.ends_with("attn.qkv.weight")) return whole ? kLoraQkv : from(LoraModule::q);
  if (name.ends_with("attn.out.weight")) return kLoraOut;
  if (name.ends_with("mlp.down.weight")) return only(LoraModule::down);
  if (!name.ends_with("mlp.up.weight")) return {};
  if (!model.parts().gated()) return only(LoraModule::up);
  return whole ? only(LoraModule::gate) | only(LoraModule::up) : from(LoraModule::gate);
}

void validate_lora(const ModelConfig& model) {
  const LoraConfig& lora = model.lora;
  if (!lora.used()) return;
  for (const LoraModule module : kLoraModules) {
    if (!lora.has(module)) {
      const auto i = static_cast<std::size_t>(module);
      if (lora.own_rank.at(i) == 0 && lora.own_alpha.at(i) == 0) continue;
      throw UserError(fmt::format("a lora rank or alpha of {}, on={}", to_string(module), to_string(lora.on)),
                      "a module that has an adapter",
                      fmt::format("write on={}, or leave it out", to_string(lora.on | only(module))));
    }
    if (lora.rank_of(module) > model.hidden || lora.rank_of(module) < 1) {
      throw UserError(fmt::format("lora rank = {} with model.hidden = {}", lora.rank_of(module), model.hidden),
                      fmt::format("a rank from 1 to {}: a higher one saves nothing", model.hidden),
                      "choose a smaller rank, such as rank=8");
    }
    if (!(lora.alpha_of(module) > 0) || !std::isfinite(lora.alpha_of(module))) {
      throw UserError(fmt::format("lora alpha = {}", lora.alpha_of(module)), "a number above 0", "set alpha=16");
    }
  }
  if (lora.on.none()) {
    throw UserError("lora on no layer", "qkv, out, mlp or several of them", "set on=qkv+out+mlp");
  }
  if (model.experts > 0 && (lora.on & kLoraMlp).any()) {
    const LoraModules attention = lora.on & ~kLoraMlp;
    throw UserError(fmt::format("lora on={} in a model with experts", to_string(lora.on)),
                    "adapters of attention alone: qkv, out or several of its modules",
                    fmt::format("write on={}", to_string(attention.any() ? attention : kLoraQkv | kLoraOut)));
  }
  ModelConfig base = model;
  base.lora = {};
  base.layers = 1;
  LoraModules known;
  for (const ParameterSpec& weight : model_parameters(base)) {
    refuse_parts_of_packed(model, weight);
    for (const StoredTensor& stored : weight.stored) known |= modules_of(base, weight, stored);
  }
  // The MLP of GPT-2 has no gate, and on=mlp means what it has.
  const bool whole_mlp = (lora.on & kLoraMlp) == kLoraMlp;
  const LoraModules unknown = lora.on & ~known & ~(whole_mlp ? kLoraMlp : LoraModules());
  if (unknown.any()) {
    throw UserError(fmt::format("lora on={}, and a model of family {} has no {}", to_string(lora.on),
                                to_string(model.family), to_string(unknown)),
                    fmt::format("some of {}", to_string(known)),
                    fmt::format("write on={}", to_string(whole_mlp ? lora.on : lora.on & known)));
  }
}

void add_adapters(const ModelConfig& model, std::vector<ParameterSpec>& list) {
  const std::size_t own = list.size();
  for (std::size_t i = 0; i < own; ++i) {
    list[i].frozen = true;
    const ParameterSpec weight = list[i];
    std::size_t number = 0;
    for (const Adapted& adapted : adapted_tensors(model, weight)) {
      auto [a, b] = adapter_of(model.family, weight, adapted, number++);
      for (ParameterSpec* adapter : {&a, &b}) {
        adapter->site = static_cast<std::uint32_t>(list.size());
        list.push_back(std::move(*adapter));
      }
    }
  }
}

bool is_adapter(const ParameterSpec& spec) {
  return spec.adapter.has_value();
}

const std::string& adapted_weight(const ParameterSpec& adapter) {
  return adapter.adapter.value().weight;
}

}  // namespace weft::ops
