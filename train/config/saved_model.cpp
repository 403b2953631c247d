#include "train/config/saved_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files/gguf_file.h"
#include "base/files/input_file.h"
#include "train/checkpoint/adapter_config.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/gguf_model.h"
#include "train/checkpoint/hf_config.h"
#include "train/config/config_table.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code hidden;  // a path that can't be read counts as absent
  return fs::exists(path, hidden);
}

/// The config.json that belongs to a folder or file of weights.
fs::path config_beside(const fs::path& path) {
  std::error_code hidden;
  return (fs::is_directory(path, hidden) ? path : path.parent_path()) / kModelConfigFile;
}

/// Whether a key is a size that a model may have or not.
bool is_addition(std::string_view key) {
  return key.starts_with(kModelPrefix) && std::ranges::find(ops::additions(), key.substr(kModelPrefix.size()),
                                                            &ops::Addition::key) != ops::additions().end();
}

/// Whether a key is a size that a family's model computes with: not init-std, none of RoPE's numbers with learned
/// positions, and of the additions those of the family.
bool computes_with(ops::Family family, std::string_view key) {
  if (!key.starts_with(kModelPrefix) || key == "model.init-std") return false;
  const ops::FamilyParts& parts = ops::parts_of(family);
  if (is_addition(key)) return parts.has_key(key.substr(kModelPrefix.size()));
  return !(parts.learned_positions && key.starts_with("model.rope"));
}

/// Whether a size of the model was given: set by a file or flag, or by code that set `model` and none of its keys.
bool is_given(const RunConfig& config, std::string_view key) {
  if (config.given.contains(key)) return true;
  const bool by_key =
      std::ranges::any_of(config.given, [](const std::string& name) { return name.starts_with("model"); });
  return !by_key && key.starts_with(kModelPrefix) && config.model_name != RunConfig().model_name;
}

/// Two values of one key of the model, as text.
struct Difference {
  std::string key, given, saved;
};

std::vector<Difference> differences(const RunConfig& config, const ops::ModelConfig& saved) {
  RunConfig other = config;
  other.model = saved;
  std::vector<Difference> found;
  for (const ConfigKey& entry : config_keys()) {
    if (!computes_with(saved.family, entry.name) || !is_given(config, entry.name)) continue;
    if (entry.get(config) != entry.get(other)) found.push_back({entry.name, entry.get(config), entry.get(other)});
  }
  return found;
}

void refuse_differences(const RunConfig& config, const SavedModel& saved) {
  const std::vector<Difference> found = differences(config, saved.model);
  if (found.empty()) return;
  const Difference& first = found.front();
  std::vector<std::string> others;
  for (auto d = found.begin() + 1; d != found.end(); ++d) {
    others.push_back(fmt::format("{} = {} for {}", d->key, d->given, d->saved));
  }
  const bool of_folder = !config.model_folder.empty();
  const std::string& name = of_folder ? config.model_folder : config.model_name;
  const bool named = of_folder || (name != kCustomModel && (config.given.contains("model") || config.given.empty()));
  std::string fix = named ? fmt::format("leave model = {} out", name)
                          : fmt::format("--{} {}, or leave it out", first.key, first.saved);
  if (first.key == "model.context") fix += "; shorter sequences are --seq-len's matter";
  throw UserError(
      fmt::format("{} = {}{}, and the model in {} has {}", first.key, first.given,
                  named ? fmt::format(" (model {})", name) : "", in_quotes(saved.path), first.saved),
      others.empty() ? "the saved model's sizes" : fmt::format("the saved model's sizes (also {})", join(others)), fix);
}

/// A named model keeps its name as long as it is that model.
std::string named_or_custom(const ops::ModelConfig& model) {
  if (std::ranges::count(ops::model_names(), model.name) == 0) return kCustomModel;
  RunConfig named, saved;
  named.model = ops::model_by_name(model.name);
  saved.model = model;
  const bool equal = std::ranges::all_of(config_keys(), [&](const ConfigKey& entry) {
    return !entry.name.starts_with(kModelPrefix) || entry.get(named) == entry.get(saved);
  });
  return equal ? model.name : kCustomModel;
}

/// Whether the configuration gives all sizes of the model that have no default in every family.
bool gives_all_sizes(const RunConfig& config) {
  return std::ranges::all_of(config_keys(), [&](const ConfigKey& entry) {
    return !computes_with(config.model.family, entry.name) || is_addition(entry.name) || is_given(config, entry.name);
  });
}

/// Sizes from a folder that has weights, but none are loaded: a user may think that they are.
void warn_of_random_weights(RunConfig& config) {
  if (config.model_folder.empty()) return;
  const fs::path folder = config.model_folder;
  if (!is_gguf(folder) && !is_there(folder / "model.safetensors") &&
      !is_there(folder / "model.safetensors.index.json")) {
    return;
  }
  config.warnings.push_back(
      fmt::format("model = {} gives sizes alone, so training begins with random weights; --init-from {} begins with "
                  "{} weights",
                  config.model_folder, config.model_folder, is_gguf(folder) ? "the file's" : "the folder's"));
}

/// Adapters of a run that begins on a saved model without any are its own. Saved ones, also those of PEFT, are trained
/// on.
void take_adapters(const RunConfig& config, SavedModel& saved, bool resumes) {
  const ops::LoraConfig &given = config.model.lora, &has = saved.model.lora;
  if (!given.used() && !config.given.contains("lora")) return;
  if (given == has || (!given.used() && !has.used())) return;
  if (!has.used() && !resumes) {
    saved.model.lora = given;
    return;
  }
  const std::string name = in_quotes(saved.adapters.empty() ? saved.path : saved.adapters);
  const std::string wanted = given.used() ? ops::to_string(given) : "none";
  if (!has.used()) {
    throw UserError(fmt::format("lora = {}, and the run in {} trained all weights", wanted, name),
                    "a run that goes on as it began",
                    fmt::format("--init-from {} to train adapters over its weights", saved.path.string()));
  }
  throw UserError(fmt::format("lora = {}, and the adapters in {} have {}", wanted, name, ops::to_string(has)),
                  "the saved adapters, which are trained on",
                  "leave lora out, or begin with the model that `weft export --merge` writes");
}

void take_run_settings(RunConfig& config, const CheckpointInfo& info) {
  if (!config.given.contains("dtype")) config.dtype = info.dtype;
  if (!config.given.contains("seed")) config.seed = info.seed;
  if (config.seed != info.seed) {
    config.warnings.push_back(
        fmt::format("seed = {}, but the resumed run had {}: from here on data come in another order, and dropout "
                    "drops other activations",
                    config.seed, info.seed));
  }
}

/// A saved model without adapters of another folder.
SavedModel read_model(const fs::path& path) {
  constexpr const char* kExpected =
      "a run or checkpoint folder of Weft, a folder of Hugging Face with config.json and model.safetensors, or a GGUF "
      "file";
  if (const fs::path newest = inside_run(path); is_checkpoint(newest)) {
    Manifest manifest = read_manifest(newest);
    verify_settings(newest, manifest);
    CheckpointInfo info = std::move(manifest.info);
    const ops::ModelConfig model = info.model;
    const DType dtype = info.dtype;
    return {newest, std::move(info), model, dtype};
  }
  if (!is_there(path)) throw UserError(in_quotes(path) + " doesn't exist", kExpected, "check the path");
  if (is_gguf(path)) {
    const HfConfig config = read_gguf_config(GgufFile(path));
    return {path, std::nullopt, config.model, config.dtype};
  }
  const fs::path file = config_beside(path);
  if (!is_there(file)) {
    std::error_code hidden;
    if (is_there(path / kAdapterConfigFile)) {
      throw UserError(in_quotes(path) + " holds an adapter, and no model", "the model that it was trained on",
                      fmt::format("give that model's folder, and --adapter {}", path.string()));
    }
    throw UserError(fs::is_directory(path, hidden)
                        ? in_quotes(path) + " holds no complete checkpoint and no " + kModelConfigFile
                        : in_quotes(path) + " has no " + kModelConfigFile + " beside it",
                    kExpected,
                    is_there(checkpoints_of(path)) ? "train until the first checkpoint, or give another folder"
                                                   : "copy the model's config.json to its weights, or give the "
                                                     "model's own folder");
  }
  const HfConfig config = load_hf_config(file);
  return {path, std::nullopt, config.model, config.dtype};
}

}  // namespace

std::optional<fs::path> checkpoint_of(const SavedModel& saved) {
  return saved.checkpoint ? std::optional(saved.path) : std::nullopt;
}

std::string name_of(const SavedModel& saved) {
  return saved.path.string() + (saved.checkpoint ? fmt::format(", step {}", saved.checkpoint->step) : "");
}

SavedModel read_saved_model(const fs::path& path, const fs::path& adapters) {
  SavedModel saved = read_model(path);
  if (adapters.empty()) return saved;
  saved.adapters = adapters;
  saved.model.lora = read_adapters(adapters, saved.model);
  return saved;
}

std::optional<fs::path> checkpoint_to_resume(const RunConfig& config) {
  if (config.resume.empty()) return std::nullopt;
  // Without a checkpoint the run begins, so that one command starts and restarts it.
  if (config.resume == kResumeAuto) return latest_checkpoint(config.run_dir);
  return find_checkpoint(config.resume);
}

void take_saved_model(RunConfig& config) {
  load_named_model(config);
  const bool resumes =
      !config.resume.empty() && (config.resume != kResumeAuto || latest_checkpoint(config.run_dir).has_value());
  const fs::path from = !resumes ? config.init_from : config.resume == kResumeAuto ? config.run_dir : config.resume;
  if (from.empty()) {
    if (!config.adapter.empty()) {
      throw UserError(fmt::format("adapter = {} without init-from", config.adapter),
                      "the model that the adapter was trained on", "--init-from with its folder");
    }
    warn_of_random_weights(config);
    return;
  }
  const bool described =
      is_checkpoint(inside_run(from)) || (!resumes && (is_gguf(from) || is_there(config_beside(from))));
  if (!described && gives_all_sizes(config)) return;
  SavedModel saved = resumes ? read_saved_model(find_checkpoint(from)) : read_saved_model(from, config.adapter);
  refuse_differences(config, saved);
  take_adapters(config, saved, resumes);
  config.model = saved.model;
  config.model_name = config.model.name = named_or_custom(saved.model);
  if (resumes) take_run_settings(config, *saved.checkpoint);
  const fs::path beside = config_beside(from).parent_path();
  if (!saved.checkpoint && !is_gguf(from) && saved.adapters.empty() && is_there(beside / kAdapterConfigFile)) {
    config.warnings.push_back(fmt::format("{} has an adapter beside the model, which isn't read without --adapter {}",
                                          in_quotes(from), beside.string()));
  }
}

std::optional<RunConfig> stored_config(const CheckpointInfo& info) {
  RunConfig config;
  try {
    load_toml_text(config, info.config_toml, "the configuration of a checkpoint");
  } catch (const UserError&) {
    return std::nullopt;
  }
  return config;
}

RunConfig config_to_resume(const std::string& resume, std::span<const Setting> over) {
  const fs::path checkpoint = find_checkpoint(resume);
  RunConfig config;
  load_toml_text(config, read_manifest(checkpoint).info.config_toml,
                 fmt::format("the configuration in {}", in_quotes(checkpoint)), over);
  config.resume = resume;
  config.init_from.clear();
  config.adapter.clear();
  if (config.micro_batch > 0 && accumulation(config) == 1) config.micro_batch = 0;
  config.ranks = 0;                                              // as many as the grid has, or mpirun's
  config.threads = 0;                                            // as this machine has them
  if (config.gemm_tuning != "none") config.gemm_tuning.clear();  // the checkpoint's
  // <run>/checkpoints/step_00000200, wherever the run lies by now; a checkpoint by itself has no run.
  const fs::path folder = fs::absolute(checkpoint).lexically_normal().parent_path();
  const bool in_a_run = folder.filename() == checkpoints_of("").filename();
  config.run_dir = in_a_run ? checkpoint.lexically_normal().parent_path().parent_path().string() : "";
  if (in_a_run && config.run_dir.empty()) config.run_dir = ".";
  return config;
}

}  // namespace weft::train
