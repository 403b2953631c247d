// Matches the tensors of a folder of adapters with the modules of a model.
#include "train/checkpoint/adapter_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/input_file.h"
#include "ops/lora_parameters.h"
#include "train/checkpoint/adapter_config.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::uint64_t kMostBytesOfPeft = std::uint64_t{16} << 20;

/// The name that ParameterSpec::stored gives to the weight of a module that PEFT names "transformer.h.0.attn.c_attn" or
/// "model.layers.0.self_attn.q_proj", or without the first part where the model has no head.
std::string weight_of_module(std::string_view module, ops::Family family) {
  constexpr std::string_view kGpt2 = "transformer.", kLlama = "model.";
  if (family == ops::Family::gpt2) {
    return std::string(module.starts_with(kGpt2) ? module.substr(kGpt2.size()) : module) + ".weight";
  }
  return fmt::format("{}{}.weight", module.starts_with(kLlama) ? "" : kLlama, module);
}

/// Parts of names that tell what a tensor is where it is no adapter of a linear layer.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOtherTensors = {
    {{".lora_embedding_", "belongs to an adapter of an embedding"},
     {".lora_magnitude_vector", "belongs to DoRA"},
     {".lora_B.bias", "is a bias of an adapter's B"},
     {".lora_", "is a part of an adapter that Weft doesn't know"},
     {".bias", "is a bias that was trained beside the adapters"},
     {".weight", "is a whole module that was trained beside the adapters (modules_to_save)"}}};

[[noreturn]] void refuse_tensor(const SafetensorsFile& file, std::string_view name, std::string_view said,
                                std::string_view expected, std::string_view fix = kMergeInPeft) {
  throw UserError(fmt::format("{}: tensor '{}' {}", in_quotes(file.path()), name, said), expected, fix);
}

}  // namespace

AdapterTensors::AdapterTensors(const fs::path& folder, ops::Family family)
    : file_(folder / kAdapterFile), family_(family) {
  for (const StoredTensorInfo& tensor : file_.tensors()) add(tensor);
  for (const auto& [weight, halves] : halves_) {
    if (halves.a != nullptr && halves.b != nullptr) continue;
    refuse_tensor(file_, (halves.a != nullptr ? halves.a : halves.b)->name, "is one half of an adapter",
                  "lora_A and lora_B of each module", kRepair);
  }
}

const AdapterTensors::Halves* AdapterTensors::find(const std::string& weight) const {
  const auto found = halves_.find(weight);
  return found == halves_.end() ? nullptr : &found->second;
}

const StoredTensorInfo& AdapterTensors::stored(const ops::StoredTensor& piece) const {
  const std::string_view name = piece.name;
  const std::string_view module = name.substr(kPeftPrefix.size(), name.rfind(".lora_") - kPeftPrefix.size());
  const Halves& halves = halves_.at(weight_of_module(module, family_));
  return name.ends_with(ops::kLoraA) ? *halves.a : *halves.b;
}

void AdapterTensors::add(const StoredTensorInfo& tensor) {
  const std::string_view name = tensor.name;
  const bool is_a = name.ends_with(ops::kLoraA), is_b = name.ends_with(ops::kLoraB);
  if (!is_a && !is_b) {
    const auto other = std::ranges::find_if(
        kOtherTensors, [&](const auto& part) { return name.find(part.first) != std::string_view::npos; });
    refuse_tensor(file_, name, other == kOtherTensors.end() ? "is unknown" : other->second,
                  "lora_A.weight and lora_B.weight of linear layers alone");
  }
  expect_floats(file_, tensor);
  std::string_view module = name.substr(0, name.rfind(".lora_"));
  if (module.starts_with(kPeftPrefix)) module.remove_prefix(kPeftPrefix.size());
  Halves& halves = halves_[weight_of_module(module, family_)];
  halves.module = module;
  const StoredTensorInfo*& half = is_a ? halves.a : halves.b;
  if (half != nullptr) refuse_tensor(file_, name, "is there a second time", "each once", kRepair);
  half = &tensor;
}

namespace {

using Halves = AdapterTensors::Halves;

PeftConfig config_of(const fs::path& folder, ops::Family family) {
  const fs::path file = folder / kAdapterConfigFile;
  std::error_code none;  // a path that can't be read counts as absent
  if (!fs::exists(file, none)) {
    throw UserError(fmt::format("{} holds no {}", in_quotes(folder), kAdapterConfigFile),
                    fmt::format("a folder of PEFT with it and {}", kAdapterFile),
                    "check the path; the adapters of a run are exported by weft export");
  }
  if (!fs::exists(folder / kAdapterFile, none)) {
    throw UserError(fmt::format("{} holds no {}", in_quotes(folder), kAdapterFile), "adapters as safetensors",
                    fs::exists(folder / "adapter_model.bin", none)
                        ? "load adapter_model.bin with PEFT and save it again: model.save_pretrained(FOLDER)"
                        : "copy the file there");
  }
  return read_peft_config(whole_file(file, kMostBytesOfPeft), in_quotes(file), family);
}

/// What a pattern gives a module. Throws UserError if two of its names are the module's and differ.
template <class Value>
Value value_of(std::string_view module, const std::vector<std::pair<std::string, Value>>& pattern, Value usual,
               const fs::path& folder, std::string_view key) {
  std::optional<Value> found;
  for (const auto& [end, value] : pattern) {
    if (!is_module(module, end)) continue;
    if (found && *found != value) {
      throw UserError(fmt::format("{}: {} gives {} both {} and {}", in_quotes(folder / kAdapterConfigFile), key, module,
                                  *found, value),
                      "one value for a module", "leave one of the names out");
    }
    found = value;
  }
  return found.value_or(usual);
}

/// One kind of module, in all layers.
struct Kind {
  ops::LoraModules modules;
  std::int64_t rank = 0;
  float alpha = 0.0F;
  std::string first;  // the first module of the kind, as the file names it
  std::int64_t layers = 0;
};

/// Reads which adapters there are, from the tensors, and compares them with what the config says.
class AdapterReader {
 public:
  AdapterReader(const fs::path& folder, const ops::ModelConfig& base)
      : folder_(folder), base_(base), config_(config_of(folder, base.family)), tensors_(folder, base.family) {}

  ops::LoraConfig read() {
    std::size_t known = 0;
    for (const ops::ParameterSpec& weight : ops::model_parameters(base_)) {
      for (const ops::StoredTensor& stored : weight.stored) {
        const ops::LoraModules modules = ops::modules_of(base_, weight, stored);
        if (modules.none()) continue;
        const Halves* const halves = tensors_.find(stored.name);
        if (halves == nullptr) {
          expect_no_target(stored.name);
          continue;
        }
        ++known;
        add(*halves, weight.cols, stored.rows, modules);
      }
    }
    if (known < tensors_.by_weight().size()) refuse_unknown();
    return lora();
  }

 private:
  std::string fix() const {
    return config_.base.empty() ? "give the model that the adapter was trained on"
                                : fmt::format("give the model that the adapter was trained on: {}", config_.base);
  }

  /// A module that the config names without a tensor would begin anew in PEFT.
  void expect_no_target(const std::string& weight) const {
    if (!config_.targets || !config_.layers.empty()) return;
    const std::string_view module = std::string_view(weight).substr(0, weight.rfind(".weight"));
    for (const std::string& target : *config_.targets) {
      if (!is_module(module, target)) continue;
      throw UserError(fmt::format("{} has no adapter of '{}'", in_quotes(tensors_.file().path()), module),
                      fmt::format("one, because target_modules of {} has '{}'", kAdapterConfigFile, target), fix());
    }
  }

  void add(const Halves& halves, std::int64_t in, std::int64_t out, const ops::LoraModules& modules) {
    const std::string& module = halves.module;
    const bool named = !config_.targets || std::ranges::any_of(*config_.targets, [&](const std::string& target) {
      return is_module(module, target);
    });
    if (!named) {
      refuse_tensor(tensors_.file(), halves.a->name, "is of a module that target_modules doesn't name",
                    fmt::format("the modules of {}", kAdapterConfigFile), "copy both files from where they were saved");
    }
    const std::int64_t rank = value_of(module, config_.ranks, config_.rank, folder_, "rank_pattern");
    const float alpha = value_of(module, config_.alphas, config_.alpha, folder_, "alpha_pattern");
    expect_shape(*halves.a, {rank, in});
    expect_shape(*halves.b, {out, rank});
    auto kind = std::ranges::find(kinds_, modules, &Kind::modules);
    if (kind == kinds_.end()) kind = kinds_.insert(kinds_.end(), {modules, rank, alpha, module, 0});
    ++kind->layers;
    if (kind->rank == rank && kind->alpha == alpha) return;
    throw UserError(
        fmt::format("{}: {} has rank {} and alpha {}, and {} has {} and {}", in_quotes(folder_ / kAdapterConfigFile),
                    kind->first, kind->rank, kind->alpha, module, rank, alpha),
        "a rank_pattern and an alpha_pattern that don't tell layers apart", kMergeInPeft);
  }

  void expect_shape(const StoredTensorInfo& tensor, std::array<std::int64_t, 2> expected) const {
    const std::array shape = {static_cast<std::uint64_t>(expected[0]), static_cast<std::uint64_t>(expected[1])};
    if (std::ranges::equal(tensor.shape, shape)) return;
    refuse_tensor(tensors_.file(), tensor.name, "has shape " + shape_text(tensor.shape),
                  fmt::format("{}, from the model and r of {}", shape_text(shape), kAdapterConfigFile), fix());
  }

  [[noreturn]] void refuse_unknown() const {
    std::vector<ops::ParameterSpec> specs = ops::model_parameters(base_);
    for (const auto& [weight, halves] : tensors_.by_weight()) {
      const ops::ParameterSpec* holder = nullptr;
      bool adaptable = false;
      for (const ops::ParameterSpec& spec : specs) {
        for (const ops::StoredTensor& stored : spec.stored) {
          if (stored.name != weight) continue;
          holder = &spec;
          adaptable = ops::modules_of(base_, spec, stored).any();
        }
      }
      if (adaptable) continue;
      if (holder != nullptr || weight == "model.lm_head.weight" || weight == "lm_head.weight") {
        refuse_tensor(tensors_.file(), halves.a->name, "is of a module that has no adapter in Weft",
                      "linear layers of attention and of the MLP");
      }
      refuse_tensor(
          tensors_.file(), halves.a->name, "is of a module that the model doesn't have",
          fmt::format("modules of a model of family {} with {} layers", ops::to_string(base_.family), base_.layers),
          fix());
    }
    throw std::logic_error("no unknown adapter");
  }

  ops::LoraConfig lora() const {
    if (kinds_.empty()) {
      throw UserError(in_quotes(tensors_.file().path()) + " holds no adapter", "at least one",
                      "copy the file from where it was saved");
    }
    ops::LoraConfig lora{.rank = config_.rank, .alpha = config_.alpha, .on = {}, .rslora = config_.rslora};
    for (const Kind& kind : kinds_) {
      if (kind.layers != base_.layers) {
        throw UserError(fmt::format("{} has adapters like '{}' in {} of {} layers{}", in_quotes(tensors_.file().path()),
                                    kind.first, kind.layers, base_.layers,
                                    config_.layers.empty() ? "" : " (layers_to_transform = " + config_.layers + ")"),
                        "adapters in all layers", kMergeInPeft);
      }
      lora.on |= kind.modules;
      for (const ops::LoraModule module : ops::kLoraModules) {
        if ((kind.modules & ops::only(module)).none()) continue;
        const auto i = static_cast<std::size_t>(module);
        if (kind.rank != lora.rank) lora.own_rank.at(i) = kind.rank;
        if (kind.alpha != lora.alpha) lora.own_alpha.at(i) = kind.alpha;
      }
    }
    // The MLP of GPT-2 without its gate is all of it.
    const ops::LoraModules gate = ops::only(ops::LoraModule::gate);
    if (!base_.parts().gated() && (lora.on | gate) == (lora.on | ops::kLoraMlp)) lora.on |= gate;
    return lora;
  }

  const fs::path& folder_;
  const ops::ModelConfig& base_;
  const PeftConfig config_;
  const AdapterTensors tensors_;
  std::vector<Kind> kinds_;
};

}  // namespace

ops::LoraConfig read_adapters(const fs::path& folder, const ops::ModelConfig& base) {
  if (base.lora.used()) {
    throw UserError(fmt::format("the adapters of {} for a model with adapters", in_quotes(folder)),
                    "a model without any", "merge its own first: weft export --merge");
  }
  ops::ModelConfig adapted = base;
  adapted.lora = AdapterReader(folder, base).read();
  ops::validate(adapted);
  return adapted.lora;
}

}  // namespace weft::train
