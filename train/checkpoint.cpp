// The folder of a checkpoint: what order it is written in, and what is checked before it is believed.
#include "train/checkpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/durable_file.h"
#include "train/hf_config.h"
#include "train/json_file.h"
#include "train/weights.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "weft-checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr std::string_view kStepPrefix = "step_";

/// Calls visit(key, member) for every size of a model: one list for writing and reading.
template <class Model, class Visit>
void for_each_size(Model& model, Visit visit) {
  visit("name", model.name);
  visit("layers", model.layers);
  visit("hidden", model.hidden);
  visit("heads", model.heads);
  visit("kv_heads", model.kv_heads);
  visit("ffn", model.ffn);
  visit("vocab", model.vocab);
  visit("context", model.context);
  visit("tied", model.tied);
  visit("norm_eps", model.norm_eps);
  visit("init_std", model.init_std);
  visit("rope_theta", model.rope_theta);
  visit("rope_scaling_factor", model.rope_scaling_factor);
  visit("rope_low_freq_factor", model.rope_low_freq_factor);
  visit("rope_high_freq_factor", model.rope_high_freq_factor);
  visit("rope_original_context", model.rope_original_context);
}

nlohmann::ordered_json model_json(const ModelConfig& model) {
  nlohmann::ordered_json sizes;
  sizes["family"] = to_string(model.family);
  for_each_size(model, [&](const char* key, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, float>) {
      sizes[key] = shortest_double(value);
    } else {
      sizes[key] = value;
    }
  });
  return sizes;
}

ModelConfig model_from_json(const json& sizes) {
  ModelConfig model;
  const auto family = sizes.at("family").get<std::string>();
  if (family != to_string(Family::gpt2) && family != to_string(Family::llama)) {
    throw UserError("model family " + family, "gpt2 or llama", "");
  }
  model.family = family == to_string(Family::gpt2) ? Family::gpt2 : Family::llama;
  for_each_size(model, [&](const char* key, auto& value) { sizes.at(key).get_to(value); });
  validate(model);
  return model;
}

DType parameter_dtype(const std::string& name) {
  if (name == to_string(DType::f32)) return DType::f32;
  if (name == to_string(DType::bf16)) return DType::bf16;
  throw UserError("dtype " + name, "f32 or bf16", "");
}

json read_manifest(const fs::path& folder) {
  const MappedFile file(folder / kManifest);
  const std::string name = in_quotes(file.path());
  json manifest = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, name);
  if (!manifest.is_object() || manifest.value("format", json()) != kFormat) {
    throw UserError(name + " isn't the manifest of a checkpoint", "one that weft has written", "");
  }
  if (manifest.value("version", json()) != kVersion) {
    throw UserError(fmt::format("{} has version {}", name, manifest.value("version", json()).dump()),
                    fmt::format("version {}", kVersion), "load it with the weft that wrote it");
  }
  return manifest;
}

/// The arrays of the optimizer by the ending of their tensors' names; a parameter has a master exactly if it is bf16.
template <class State>
auto optimizer_arrays(const State& parameter) {
  using Array = decltype(parameter.m);
  std::vector<std::pair<const char*, Array>> arrays = {{".m", parameter.m}, {".v", parameter.v}};
  if (parameter.dtype == DType::bf16) arrays.emplace_back(".master", parameter.master);
  for (const auto& [ending, array] : arrays) {
    if (array == nullptr || parameter.data == nullptr) {
      throw std::invalid_argument("checkpoint: " + parameter.spec->name + " has no array for " + ending);
    }
  }
  return arrays;
}

void save_optimizer(const fs::path& path, std::span<const ParameterState> parameters) {
  std::vector<TensorToWrite> tensors;
  for (const ParameterState& parameter : parameters) {
    for (const StoredTensor& piece : parameter.spec->stored) {
      for (const auto& [ending, array] : optimizer_arrays(parameter)) {
        tensors.push_back({piece.name + ending, StoredType::f32, stored_shape(*parameter.spec, piece),
                           [&parameter, &piece, array = array](std::vector<std::byte>& scratch) {
                             return pack(*parameter.spec, piece, DType::f32, array, scratch);
                           }});
      }
    }
  }
  write_safetensors(path, std::move(tensors));
}

void load_optimizer(const fs::path& path, std::span<const MutableParameterState> parameters) {
  const SafetensorsFile file(path);
  std::size_t expected = 0;
  for (const MutableParameterState& parameter : parameters) {
    for (const StoredTensor& piece : parameter.spec->stored) {
      for (const auto& [ending, array] : optimizer_arrays(parameter)) {
        const std::string name = piece.name + ending;
        const StoredTensorInfo* tensor = file.find(name);
        if (tensor == nullptr)
          throw UserError(in_quotes(path) + " has no tensor '" + name + "'", "m and v of each", "");
        unpack(file, *tensor, *parameter.spec, piece, DType::f32, array);
        ++expected;
      }
    }
  }
  if (file.tensors().size() != expected) {
    throw UserError(fmt::format("{} has {} tensors", in_quotes(path), file.tensors().size()),
                    fmt::format("{} for this model", expected), "give the model family and sizes of the checkpoint");
  }
}

std::string manifest_text(const fs::path& folder, const CheckpointInfo& info,
                          std::span<const ParameterState> parameters) {
  nlohmann::ordered_json manifest;
  manifest["format"] = kFormat;
  manifest["version"] = kVersion;
  manifest["step"] = info.step;
  manifest["seed"] = info.seed;
  manifest["tokens_seen"] = info.tokens_seen;
  manifest["dtype"] = to_string(info.dtype);
  manifest["versions"] = info.versions;
  manifest["model"] = model_json(info.model);
  for (const char* file : {kModel, kOptimizer}) manifest["files"][file] = fs::file_size(folder / file);
  for (const ParameterState& parameter : parameters) {
    for (const StoredTensor& piece : parameter.spec->stored) {
      manifest["shapes"][piece.name] = stored_shape(*parameter.spec, piece);
    }
  }
  manifest["config"] = info.config_toml;
  return manifest.dump(2) + "\n";
}

/// The step in "step_00000200"; nothing for another name.
std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || step < 0) return std::nullopt;
  return step;
}

/// `path` itself, or the latest checkpoint if it is a run folder.
fs::path inside_run(const fs::path& path) {
  if (fs::exists(path / kManifest)) return path;
  if (const auto latest = latest_checkpoint(path)) return *latest;
  return path;
}

}  // namespace

fs::path save_checkpoint(const fs::path& run_dir, const CheckpointInfo& info,
                         std::span<const ParameterState> parameters) {
  const fs::path parent = run_dir / "checkpoints";
  const fs::path folder = parent / fmt::format("{}{:08}", kStepPrefix, info.step);
  const fs::path temporary = parent / (".writing_" + folder.filename().string());
  const fs::path replaced = parent / (".replaced_" + folder.filename().string());
  try {
    fs::remove_all(temporary);  // left by a run that was killed
    fs::create_directories(temporary);
    save_optimizer(temporary / kOptimizer, parameters);
    save_weights(temporary, info.model, parameters);
    write_durable(temporary / kManifest, manifest_text(temporary, info, parameters));
    fs::remove_all(replaced);
    if (fs::exists(folder)) fs::rename(folder, replaced);  // a folder can only be renamed to a free name
    fs::rename(temporary, folder);
    sync_folder(parent);
    fs::remove_all(replaced);
  } catch (const fs::filesystem_error& error) {
    throw RuntimeFault(fmt::format("checkpoint {} can't be written: {}", in_quotes(folder), error.what()));
  }
  return folder;
}

std::optional<fs::path> latest_checkpoint(const fs::path& run_dir) {
  std::optional<fs::path> latest;
  std::int64_t latest_step = -1;
  std::error_code none;  // no such folder: no checkpoints
  for (const fs::directory_entry& entry : fs::directory_iterator(run_dir / "checkpoints", none)) {
    const auto step = step_of(entry.path());
    if (step && *step > latest_step && fs::exists(entry.path() / kManifest)) {
      latest = entry.path();
      latest_step = *step;
    }
  }
  return latest;
}

fs::path find_checkpoint(const fs::path& path) {
  const fs::path found = inside_run(path);
  if (fs::exists(found / kManifest)) return found;
  throw UserError(in_quotes(path) + (fs::exists(path) ? " holds no complete checkpoint" : " doesn't exist"),
                  "a run folder with checkpoints/step_…, or one of those folders",
                  "to start from weights alone, give --init-from");
}

CheckpointInfo read_checkpoint_info(const fs::path& folder) {
  const json manifest = read_manifest(folder);
  const std::string name = in_quotes(folder / kManifest);
  CheckpointInfo info;
  try {
    manifest.at("step").get_to(info.step);
    manifest.at("seed").get_to(info.seed);
    manifest.at("tokens_seen").get_to(info.tokens_seen);
    info.dtype = parameter_dtype(manifest.at("dtype").get<std::string>());
    manifest.at("versions").get_to(info.versions);
    info.model = model_from_json(manifest.at("model"));
    manifest.at("config").get_to(info.config_toml);
    for (const auto& [file, size] : manifest.at("files").items()) {
      std::error_code missing;
      const auto found = fs::file_size(folder / file, missing);
      if (missing || found != size.get<std::uint64_t>()) {
        throw UserError(missing ? in_quotes(folder / file) + " is missing"
                                : fmt::format("{} has {} bytes", in_quotes(folder / file), found),
                        size.dump() + " bytes, as the manifest says", "use another checkpoint of the run");
      }
    }
  } catch (const json::exception& error) {
    throw UserError(name + " is damaged: " + error.what(), "a manifest that weft has written",
                    "use another checkpoint of the run");
  }
  return info;
}

void load_checkpoint(const fs::path& folder, std::span<const MutableParameterState> parameters) {
  const CheckpointInfo info = read_checkpoint_info(folder);
  for (const MutableParameterState& parameter : parameters) {
    if (parameter.dtype == info.dtype) continue;
    throw UserError(
        fmt::format("{} was trained in {}", in_quotes(folder), to_string(info.dtype)),
        fmt::format("{}, this run's dtype", to_string(parameter.dtype)),
        fmt::format("give --dtype {}; or --init-from, to start from its weights alone", to_string(info.dtype)));
  }
  load_weights(folder, info.model, parameters);
  load_optimizer(folder / kOptimizer, parameters);
}

void load_parameters(const fs::path& path, const ModelConfig& model,
                     std::span<const MutableParameterState> parameters) {
  load_weights(inside_run(path), model, parameters);
}

ModelConfig read_model_config(const fs::path& path) {
  const fs::path found = inside_run(path);
  if (!fs::exists(found)) {
    throw UserError(in_quotes(path) + " doesn't exist", "a checkpoint, or weights of Hugging Face", "check the path");
  }
  if (fs::exists(found / kManifest)) return read_checkpoint_info(found).model;
  const fs::path config = (fs::is_directory(found) ? found : found.parent_path()) / "config.json";
  const MappedFile file(config);
  return model_from_hf_config({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                              in_quotes(config));
}

}  // namespace weft
