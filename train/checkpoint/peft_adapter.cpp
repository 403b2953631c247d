#include "train/checkpoint/peft_adapter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/json_object.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/weights.h"

namespace weft::train {
namespace {

// The end of a module's name that tells it from all others: "q_proj". GPT-2 has a c_proj in attention and one in the
// MLP, so that its names need two parts: "attn.c_proj".
std::string target_module(ops::Family family, std::string_view stored) {
  const std::string_view module = stored.substr(0, stored.rfind(".lora_"));
  std::size_t dot = module.rfind('.');
  if (family == ops::Family::gpt2) dot = module.rfind('.', dot - 1);
  return std::string(module.substr(dot + 1));
}

const ParameterState& named(std::span<const ParameterState> parameters, std::string_view name) {
  const auto found = std::ranges::find_if(parameters, [&](const ParameterState& p) { return p.spec->name == name; });
  if (found == parameters.end()) throw std::logic_error("no parameter " + std::string(name));
  return *found;
}

template <class Element>
void add_products(const ops::ModelConfig& model, const ParameterState& weight, const ParameterState& a,
                  const ParameterState& b) {
  const auto rank = static_cast<std::size_t>(model.lora.rank), cols = static_cast<std::size_t>(weight.spec->cols);
  std::vector<float> sum(cols);
  for (std::size_t part = 0; part < weight.spec->stored.size(); ++part) {
    const ops::StoredTensor& stored = weight.spec->stored[part];
    const Element* const down = static_cast<const Element*>(a.data) + part * rank * cols;
    for (std::int64_t row = stored.row_begin; row < stored.row_begin + stored.rows; ++row) {
      Element* const to = static_cast<Element*>(weight.data) + static_cast<std::size_t>(row) * cols;
      const Element* const up = static_cast<const Element*>(b.data) + static_cast<std::size_t>(row) * rank;
      std::ranges::fill(sum, 0.0F);
      for (std::size_t r = 0; r < rank; ++r) {
        const float factor = model.lora.scale() * static_cast<float>(up[r]);
        for (std::size_t col = 0; col < cols; ++col) sum[col] += factor * static_cast<float>(down[r * cols + col]);
      }
      for (std::size_t col = 0; col < cols; ++col) to[col] = Element(static_cast<float>(to[col]) + sum[col]);
    }
  }
}

}  // namespace

std::string peft_config_json(const ops::ModelConfig& model, const std::string& base) {
  std::set<std::string> modules;
  for (const ops::ParameterSpec& spec : ops::model_parameters(model)) {
    if (!ops::is_adapter(spec)) continue;
    for (const ops::StoredTensor& stored : spec.stored) modules.insert(target_module(model.family, stored.name));
  }
  const float alpha = model.lora.alpha;
  const bool whole = alpha == std::floor(alpha);
  JsonObject json;
  json.add("base_model_name_or_path", base.empty() ? JsonValue(nullptr) : JsonValue(base))
      .add("bias", "none")
      .add("fan_in_fan_out", model.family == ops::Family::gpt2)
      .add("inference_mode", true)
      .add("init_lora_weights", true)
      .add("lora_alpha", whole ? JsonValue(static_cast<std::int64_t>(alpha)) : JsonValue(static_cast<double>(alpha)))
      .add("lora_dropout", 0.0)
      .add("modules_to_save", nullptr)
      .add("peft_type", "LORA")
      .add("r", model.lora.rank)
      .add("target_modules", modules)
      .add("task_type", "CAUSAL_LM")
      .add("use_rslora", false);
  return indented_json(json.text()) + "\n";
}

std::map<std::string, FileSummary> save_adapter(const std::filesystem::path& folder, const ops::ModelConfig& model,
                                                std::span<const ParameterState> parameters, const std::string& base) {
  std::vector<ParameterState> adapters;
  std::ranges::copy_if(parameters, std::back_inserter(adapters),
                       [](const ParameterState& parameter) { return ops::is_adapter(*parameter.spec); });
  std::map<std::string, FileSummary> files;
  files[kAdapterConfigFile] = write_durable(folder / kAdapterConfigFile, peft_config_json(model, base));
  files[kAdapterFile] = write_safetensors(folder / kAdapterFile, weight_tensors(adapters));
  return files;
}

void merge_adapters(const ops::ModelConfig& model, std::span<const ParameterState> parameters) {
  for (const ParameterState& parameter : parameters) {
    if (!parameter.spec->name.ends_with(ops::kLoraA)) continue;
    const ParameterState& weight = named(parameters, ops::adapted_weight(*parameter.spec));
    std::string other = parameter.spec->name;
    other.replace(other.rfind(ops::kLoraA), std::string_view(ops::kLoraA).size(), ops::kLoraB);
    const ParameterState& b = named(parameters, other);
    weight.dtype == DType::bf16 ? add_products<bf16>(model, weight, parameter, b)
                                : add_products<float>(model, weight, parameter, b);
  }
}

}  // namespace weft::train
