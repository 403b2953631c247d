// The folder of a checkpoint: what order it is written in, and what is checked before it is believed.
#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/non_finite.h"
#include "train/durable_folder.h"
#include "train/gemm_tuning_file.h"
#include "train/hf_config.h"
#include "train/weights.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kModelConfig = "config.json";
constexpr const char* kOptimizer = "optimizer.safetensors";
const std::string kTuning(kGemmTuningFile);

/// The arrays of the optimizer by what they are; a parameter has a master exactly if it is bf16.
template <class State>
auto optimizer_arrays(const State& parameter) {
  using Array = decltype(parameter.m);
  std::vector<std::pair<std::string, Array>> arrays = {{"m", parameter.m}, {"v", parameter.v}};
  if (parameter.dtype == DType::bf16) arrays.emplace_back("master", parameter.master);
  for (const auto& [content, array] : arrays) {
    if (array == nullptr || parameter.data == nullptr) {
      throw std::invalid_argument("checkpoint: " + parameter.spec->name + " has no array for " + content);
    }
  }
  return arrays;
}

std::string entry_of(const StoredTensor& piece, const std::string& content) {
  return piece.name + "." + content;
}

/// They refer to `parameters`.
std::vector<TensorToWrite> optimizer_tensors(std::span<const ParameterState> parameters) {
  std::vector<TensorToWrite> tensors;
  for (const ParameterState& parameter : parameters) {
    for (const StoredTensor& piece : parameter.spec->stored) {
      for (const auto& [content, array] : optimizer_arrays(parameter)) {
        tensors.push_back({entry_of(piece, content), StoredType::f32, stored_shape(*parameter.spec, piece),
                           [&parameter, &piece, array = array](std::vector<std::byte>& scratch) {
                             return pack(*parameter.spec, piece, DType::f32, array, scratch);
                           }});
      }
    }
  }
  return tensors;
}

/// One shard a tensor: every rank holds all of it, and one writes.
StoredShard whole_shard(const ParameterSpec& spec, const StoredTensor& piece, const char* file,
                        const std::string& content, StoredType type) {
  StoredShard shard;
  shard.file = file;
  shard.entry = content == "parameter" ? piece.name : entry_of(piece, content);
  shard.tensor = piece.name;
  shard.content = content;
  shard.dtype = to_string(type);
  shard.layout = !spec.matrix ? "out" : piece.transposed ? "in, out" : "out, in";
  shard.global_shape = shard.block_end = stored_shape(spec, piece);
  shard.block_begin.assign(shard.global_shape.size(), 0);
  shard.range_end = static_cast<std::uint64_t>(piece.rows * spec.cols);
  return shard;
}

template <class State>
std::vector<StoredShard> shards_of(std::span<const State> parameters) {
  std::vector<StoredShard> shards;
  for (const State& parameter : parameters) {
    for (const StoredTensor& piece : parameter.spec->stored) {
      shards.push_back(whole_shard(*parameter.spec, piece, kModel, "parameter", stored_type(parameter.dtype)));
      for (const auto& [content, array] : optimizer_arrays(parameter)) {
        shards.push_back(whole_shard(*parameter.spec, piece, kOptimizer, content, StoredType::f32));
      }
    }
  }
  return shards;
}

void refuse_non_finite(std::span<const ParameterState> parameters, std::int64_t step) {
  const auto check = [&](const ParameterSpec& spec, const std::string& content, DType dtype, const void* data) {
    const auto found = first_non_finite({const_cast<void*>(data), spec.rows, spec.cols, spec.cols, dtype});
    if (!found) return;
    throw RuntimeFault(
        fmt::format("after step {} {} of {} holds a NaN or an infinity at [{}, {}]: no checkpoint is written; "
                    "--check-nan names the task that makes the first",
                    step, content, spec.name, *found / spec.cols, *found % spec.cols));
  };
  for (const ParameterState& parameter : parameters) {
    check(*parameter.spec, "the value", parameter.dtype, parameter.data);
    for (const auto& [content, array] : optimizer_arrays(parameter)) {
      check(*parameter.spec, content, DType::f32, array);
    }
  }
}

/// `path` itself, or the latest checkpoint if it is a run folder.
fs::path inside_run(const fs::path& path) {
  if (is_checkpoint(path)) return path;
  if (const auto latest = latest_checkpoint(path)) return *latest;
  return path;
}

Manifest read_manifest(const fs::path& folder) {
  const MappedFile file(folder / kManifestFile);
  Manifest manifest =
      parse_manifest({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, in_quotes(file.path()));
  for (const auto& [name, summary] : manifest.files) {
    std::error_code missing;
    const auto found = fs::file_size(folder / name, missing);
    if (!missing && found == summary.bytes) continue;
    throw UserError(missing ? in_quotes(folder / name) + " is missing"
                            : fmt::format("{} has {} bytes", in_quotes(folder / name), found),
                    fmt::format("{} bytes, as the manifest says", summary.bytes), "use another checkpoint of the run");
  }
  return manifest;
}

void verify(const fs::path& folder, const Manifest& manifest, const std::string& name) {
  const auto listed = manifest.files.find(name);
  if (listed == manifest.files.end()) {
    throw UserError(in_quotes(folder / kManifestFile) + " doesn't list " + name, "all files of a checkpoint",
                    "use another checkpoint of the run");
  }
  const MappedFile file(folder / name);
  const std::string found = Crc32c().add(file.bytes()).text();
  if (found == listed->second.crc32c) return;
  throw UserError(fmt::format("{} has the checksum {}", in_quotes(file.path()), found),
                  fmt::format("{}, as the manifest says: it was damaged", listed->second.crc32c),
                  "use another checkpoint of the run");
}

/// Each tensor of the model has to be there once, as one shard that is all of it.
void expect_shards(const fs::path& folder, const Manifest& manifest,
                   std::span<const MutableParameterState> parameters) {
  const std::string name = in_quotes(folder / kManifestFile);
  std::map<std::pair<std::string, std::string>, const StoredShard*> found;
  for (const StoredShard& shard : manifest.shards) found[{shard.file, shard.entry}] = &shard;
  const auto expected = shards_of(parameters);
  for (const StoredShard& wanted : expected) {
    const auto shard = found.find({wanted.file, wanted.entry});
    if (shard == found.end()) {
      throw UserError(fmt::format("{} has no tensor '{}' in {}", name, wanted.entry, wanted.file),
                      "all parameters of the model", "give the model family and sizes of the checkpoint");
    }
    if (shard->second->global_shape != wanted.global_shape || shard->second->layout != wanted.layout) {
      throw UserError(fmt::format("{}: tensor '{}' has shape {} ({})", name, wanted.entry,
                                  shape_text(shard->second->global_shape), shard->second->layout),
                      fmt::format("{} ({}) for this model", shape_text(wanted.global_shape), wanted.layout),
                      "give the model family and sizes of the checkpoint");
    }
    if (!shard->second->whole()) {
      throw UserError(fmt::format("{}: tensor '{}' is stored in parts", name, wanted.entry),
                      "whole tensors: this version trains data parallel", "load it with the weft that wrote it");
    }
  }
  if (found.size() != expected.size()) {
    throw UserError(fmt::format("{} lists {} tensors", name, found.size()),
                    fmt::format("{} for this model", expected.size()),
                    "give the model family and sizes of the checkpoint");
  }
}

void load_optimizer(const fs::path& path, std::span<const MutableParameterState> parameters) {
  const SafetensorsFile file(path);
  std::size_t expected = 0;
  for (const MutableParameterState& parameter : parameters) {
    for (const StoredTensor& piece : parameter.spec->stored) {
      for (const auto& [content, array] : optimizer_arrays(parameter)) {
        const std::string name = entry_of(piece, content);
        const StoredTensorInfo* tensor = file.find(name);
        if (tensor == nullptr) {
          throw UserError(in_quotes(path) + " has no tensor '" + name + "'", "m and v of each",
                          "give the model family and sizes of the checkpoint");
        }
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

DType dtype_of(std::span<const ParameterState> parameters) {
  return parameters.empty() ? DType::f32 : parameters.front().dtype;
}

}  // namespace

SpaceCheck checkpoint_space(const fs::path& run_dir, const CheckpointInfo& info,
                            std::span<const ParameterState> parameters) {
  // The manifest's length depends on the lengths of what it says, not on the checksums.
  const std::string any_checksum = Crc32c().text();
  Manifest manifest{info, {}, shards_of(parameters)};
  manifest.files[kModel] = {safetensors_bytes(weight_tensors(parameters)), any_checksum};
  manifest.files[kModelConfig] = {hf_config_json(info.model, dtype_of(parameters)).size(), any_checksum};
  manifest.files[kOptimizer] = {safetensors_bytes(optimizer_tensors(parameters)), any_checksum};
  if (!info.gemm_tuning.empty()) manifest.files[kTuning] = {info.gemm_tuning.size(), any_checksum};
  std::vector<std::uint64_t> sizes = {to_json(manifest).size()};
  for (const auto& [name, summary] : manifest.files) sizes.push_back(summary.bytes);
  return check_space(checkpoints_of(run_dir), sizes);
}

fs::path save_checkpoint(const fs::path& run_dir, const CheckpointInfo& info,
                         std::span<const ParameterState> parameters, const Retention& retention) {
  const fs::path path = checkpoint_path(run_dir, info.step);
  remove_leftovers(checkpoints_of(run_dir));
  refuse_non_finite(parameters, info.step);
  if (const SpaceCheck space = checkpoint_space(run_dir, info, parameters); !space.fits()) {
    throw RuntimeFault(fmt::format("checkpoint {} can't be written: it {}", in_quotes(path), space.text()));
  }
  DurableFolder folder(path);
  Manifest manifest{info, {}, shards_of(parameters)};
  manifest.files[kOptimizer] = write_safetensors(folder.path() / kOptimizer, optimizer_tensors(parameters));
  manifest.files.merge(save_weights(folder.path(), info.model, parameters));
  if (!info.gemm_tuning.empty()) manifest.files[kTuning] = write_durable(folder.path() / kTuning, info.gemm_tuning);
  write_durable(folder.path() / kManifestFile, to_json(manifest));
  folder.commit();
  remove_superseded(run_dir, info.step, retention);
  return path;
}

CheckpointInfo read_checkpoint_info(const fs::path& folder) {
  Manifest manifest = read_manifest(folder);
  if (manifest.files.contains(kTuning)) {
    verify(folder, manifest, kTuning);
    manifest.info.gemm_tuning = read_gemm_tuning_text(folder / kTuning);
  }
  return manifest.info;
}

void load_checkpoint(const fs::path& folder, std::span<const MutableParameterState> parameters) {
  const Manifest manifest = read_manifest(folder);
  const DType dtype = manifest.info.dtype;
  for (const MutableParameterState& parameter : parameters) {
    if (parameter.dtype == dtype) continue;
    throw UserError(fmt::format("{} was trained in {}", in_quotes(folder), to_string(dtype)),
                    fmt::format("{}, this run's dtype", to_string(parameter.dtype)),
                    fmt::format("give --dtype {}; or --init-from, to start from its weights alone", to_string(dtype)));
  }
  expect_shards(folder, manifest, parameters);
  for (const char* file : {kModel, kModelConfig, kOptimizer}) verify(folder, manifest, file);
  load_weights(folder, manifest.info.model, parameters);
  load_optimizer(folder / kOptimizer, parameters);
}

void load_parameters(const fs::path& path, const ModelConfig& model,
                     std::span<const MutableParameterState> parameters) {
  const fs::path found = inside_run(path);
  if (is_checkpoint(found)) verify(found, read_manifest(found), kModel);
  load_weights(found, model, parameters);
}

ModelConfig read_model_config(const fs::path& path) {
  const fs::path found = inside_run(path);
  std::error_code hidden;  // not to be looked at is not to be there
  if (!fs::exists(found, hidden)) {
    throw UserError(in_quotes(path) + " doesn't exist", "a checkpoint, or weights of Hugging Face", "check the path");
  }
  if (is_checkpoint(found)) return read_checkpoint_info(found).model;
  const fs::path config = (fs::is_directory(found, hidden) ? found : found.parent_path()) / kModelConfig;
  const MappedFile file(config);
  return model_from_hf_config({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                              in_quotes(config));
}

}  // namespace weft
