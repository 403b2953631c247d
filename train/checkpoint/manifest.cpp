// Writing a manifest, and reading one as if it were hostile.
#include "train/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/files/json_file.h"
#include "base/files/mapped_file.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "weft-checkpoint";
constexpr std::int64_t kVersion = 2;
constexpr std::uint64_t kMostSteps = 1'000'000'000;  // of any configuration
constexpr const char* kChecksum = "crc32c";
constexpr const char* kUseAnother = "use another checkpoint of the run";

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

/// The same for the texts of a shard.
template <class Shard, class Visit>
void for_each_text(Shard& shard, Visit visit) {
  visit("file", shard.file);
  visit("entry", shard.entry);
  visit("tensor", shard.tensor);
  visit("content", shard.content);
  visit("dtype", shard.dtype);
  visit("layout", shard.layout);
}

ordered_json model_json(const ModelConfig& model) {
  ordered_json sizes;
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

/// A count: nlohmann would take -1 and 1.5 for one.
std::uint64_t count_of(const json& value, const std::string& who) {
  if (!value.is_number_unsigned()) throw UserError(who + " is " + value.dump(), "an integer from 0 up", kUseAnother);
  return value.get<std::uint64_t>();
}

/// One member of a model; nlohmann would convert any number to any other.
template <class Value>
void read_member(const json& value, const std::string& who, Value& member) {
  if constexpr (std::is_same_v<Value, std::int64_t>) {
    member = static_cast<std::int64_t>(std::min(count_of(value, who), std::uint64_t{1} << 62));  // for validate()
  } else if constexpr (std::is_same_v<Value, float>) {
    constexpr double kMost = std::numeric_limits<float>::max();
    if (!value.is_number() || std::abs(value.get<double>()) > kMost) {
      throw UserError(who + " is " + value.dump(), "a number that a float holds", kUseAnother);
    }
    member = static_cast<float>(value.get<double>());
  } else {
    value.get_to(member);
  }
}

ModelConfig model_from_json(const json& sizes, const std::string& name) {
  ModelConfig model;
  const auto family = sizes.at("family").get<std::string>();
  if (family != to_string(Family::gpt2) && family != to_string(Family::llama)) {
    throw UserError("model family " + family, "gpt2 or llama", kUseAnother);
  }
  model.family = family == to_string(Family::gpt2) ? Family::gpt2 : Family::llama;
  for_each_size(model, [&](const char* key, auto& value) {
    read_member(sizes.at(key), fmt::format("{}: model.{}", name, key), value);
  });
  validate(model);
  return model;
}

ordered_json shard_json(const StoredShard& shard) {
  ordered_json entry;
  for_each_text(shard, [&](const char* key, const std::string& value) { entry[key] = value; });
  entry["global_shape"] = shard.global_shape;
  ordered_json block = ordered_json::array();
  for (std::size_t i = 0; i < shard.block_begin.size(); ++i) {
    block.push_back({shard.block_begin[i], shard.block_end[i]});
  }
  entry["block"] = std::move(block);
  entry["range"] = {shard.range_begin, shard.range_end};
  return entry;
}

std::pair<std::uint64_t, std::uint64_t> interval_of(const json& value, const std::string& who) {
  if (!value.is_array() || value.size() != 2) throw UserError(who + " is " + value.dump(), "[begin, end]", kUseAnother);
  const std::pair interval(count_of(value[0], who), count_of(value[1], who));
  if (interval.first > interval.second)
    throw UserError(who + " is " + value.dump(), "[begin, end], begin ≤ end", kUseAnother);
  return interval;
}

void check_extent(const StoredShard& shard, const std::string& who) {
  if (shard.block_begin.size() != shard.global_shape.size()) {
    throw UserError(fmt::format("{} has a block of {} dimensions", who, shard.block_begin.size()),
                    fmt::format("{}, as the global shape", shard.global_shape.size()), kUseAnother);
  }
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < shard.global_shape.size(); ++i) {
    if (shard.block_end[i] > shard.global_shape[i]) {
      throw UserError(fmt::format("{} has a block up to {}", who, shard.block_end[i]),
                      fmt::format("at most {}, the dimension of the tensor", shard.global_shape[i]), kUseAnother);
    }
    if (__builtin_mul_overflow(elements, shard.block_end[i] - shard.block_begin[i], &elements)) {
      throw UserError(who + " has more than 2^64 elements", "a tensor that fits a machine", kUseAnother);
    }
  }
  if (shard.range_end > elements) {
    throw UserError(fmt::format("{} has a range up to {}", who, shard.range_end),
                    fmt::format("at most {}, the elements of its block", elements), kUseAnother);
  }
}

StoredShard shard_from_json(const json& entry, const std::string& name) {
  StoredShard shard;
  for_each_text(shard, [&](const char* key, std::string& value) { entry.at(key).get_to(value); });
  const std::string who = fmt::format("{}: the shard '{}'", name, shard.entry);
  for (const json& dimension : entry.at("global_shape")) shard.global_shape.push_back(count_of(dimension, who));
  for (const json& interval : entry.at("block")) {
    const auto [begin, end] = interval_of(interval, who + ": block");
    shard.block_begin.push_back(begin);
    shard.block_end.push_back(end);
  }
  std::tie(shard.range_begin, shard.range_end) = interval_of(entry.at("range"), who + ": range");
  check_extent(shard, who);
  return shard;
}

void check_file_name(const std::string& file, const std::string& name) {
  const bool plain = !file.empty() && file != "." && file != ".." &&
                     file.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (!plain) throw UserError(fmt::format("{} lists a file '{}'", name, file), "names without folders", kUseAnother);
}

DType parameter_dtype(const std::string& name) {
  if (name == to_string(DType::f32)) return DType::f32;
  if (name == to_string(DType::bf16)) return DType::bf16;
  throw UserError("dtype " + name, "f32 or bf16", kUseAnother);
}

/// A line for each key, and one for each shard.
std::string lines_of(const ordered_json& manifest) {
  std::string text = "{";
  for (const auto& [key, value] : manifest.items()) {
    text += fmt::format("{}\n{}: ", text.size() > 1 ? "," : "", ordered_json(key).dump());
    if (!value.is_array()) {
      text += value.dump();
      continue;
    }
    std::string_view separator = "[";
    for (const ordered_json& element : value)
      text += fmt::format("{}\n{}", std::exchange(separator, ","), element.dump());
    text += value.empty() ? "[]" : "\n]";
  }
  return text + "\n}\n";
}

std::string checksum_of(json manifest) {
  manifest.erase(kChecksum);
  const std::string text = manifest.dump();  // keys in their one order, without blanks
  return Crc32c().add(std::as_bytes(std::span(text.data(), text.size()))).text();
}

Manifest manifest_from(const json& manifest, const std::string& name) {
  Manifest result;
  CheckpointInfo& info = result.info;
  const std::uint64_t step = count_of(manifest.at("step"), name + ": step");
  if (step > kMostSteps) {
    throw UserError(fmt::format("{}: step is {}", name, step), fmt::format("at most {}", kMostSteps), kUseAnother);
  }
  info.step = static_cast<std::int64_t>(step);
  info.seed = count_of(manifest.at("seed"), name + ": seed");
  info.tokens_seen = count_of(manifest.at("tokens_seen"), name + ": tokens_seen");
  info.dtype = parameter_dtype(manifest.at("dtype").get<std::string>());
  manifest.at("versions").get_to(info.versions);
  info.model = model_from_json(manifest.at("model"), name);
  manifest.at("config").get_to(info.config_toml);
  for (const auto& [file, summary] : manifest.at("files").items()) {
    check_file_name(file, name);
    result.files[file] = {count_of(summary.at("bytes"), fmt::format("{}: bytes of {}", name, file)),
                          summary.at(kChecksum).get<std::string>()};
  }
  std::set<std::pair<std::string, std::string>> entries;
  for (const json& entry : manifest.at("shards")) {
    StoredShard shard = shard_from_json(entry, name);
    if (!result.files.contains(shard.file)) {
      throw UserError(fmt::format("{}: the shard '{}' is in a file '{}'", name, shard.entry, shard.file),
                      "one of the listed files", kUseAnother);
    }
    if (!entries.emplace(shard.file, shard.entry).second) {
      throw UserError(fmt::format("{} lists the shard '{}' a second time", name, shard.entry), "each once",
                      kUseAnother);
    }
    result.shards.push_back(std::move(shard));
  }
  return result;
}

}  // namespace

bool StoredShard::whole() const {
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < global_shape.size(); ++i) {
    if (block_begin[i] != 0 || block_end[i] != global_shape[i]) return false;
    elements *= global_shape[i];
  }
  return range_begin == 0 && range_end == elements;
}

std::string to_json(const Manifest& manifest) {
  const CheckpointInfo& info = manifest.info;
  ordered_json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["step"] = info.step;
  json["seed"] = info.seed;
  json["tokens_seen"] = info.tokens_seen;
  json["dtype"] = to_string(info.dtype);
  json["versions"] = info.versions;
  json["model"] = model_json(info.model);
  json["files"] = ordered_json::object();
  for (const auto& [file, summary] : manifest.files) {
    json["files"][file] = {{"bytes", summary.bytes}, {kChecksum, summary.crc32c}};
  }
  json["shards"] = ordered_json::array();
  for (const StoredShard& shard : manifest.shards) json["shards"].push_back(shard_json(shard));
  json["config"] = info.config_toml;
  json[kChecksum] = checksum_of(nlohmann::json::parse(json.dump()));
  return lines_of(json);
}

Manifest parse_manifest(std::string_view json_text, const std::string& name) {
  const json manifest = parse_json(json_text, name);
  if (!manifest.is_object() || manifest.value("format", json()) != kFormat) {
    throw UserError(name + " isn't the manifest of a checkpoint", "one that weft has written", kUseAnother);
  }
  if (manifest.value("version", json()) != kVersion) {
    throw UserError(fmt::format("{} has version {}", name, manifest.value("version", json()).dump()),
                    fmt::format("version {}", kVersion), "load it with the weft that wrote it");
  }
  try {
    Manifest result = manifest_from(manifest, name);
    // Last, so that what is wrong is named where it can be.
    if (const std::string checksum = checksum_of(manifest); manifest.at(kChecksum) != checksum) {
      throw UserError(fmt::format("{} has the checksum {}", name, checksum),
                      manifest.at(kChecksum).dump() + ", as it says itself: it was altered", kUseAnother);
    }
    return result;
  } catch (const json::exception& error) {
    throw UserError(name + " is damaged: " + error.what(), "a manifest that weft has written", kUseAnother);
  }
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const MappedFile file(folder / kManifestFile);
  Manifest manifest =
      parse_manifest({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, in_quotes(file.path()));
  for (const auto& [name, summary] : manifest.files) {
    std::error_code missing;
    const auto found = std::filesystem::file_size(folder / name, missing);
    if (!missing && found == summary.bytes) continue;
    throw UserError(missing ? in_quotes(folder / name) + " is missing"
                            : fmt::format("{} has {} bytes", in_quotes(folder / name), found),
                    fmt::format("{} bytes, as the manifest says", summary.bytes), kUseAnother);
  }
  return manifest;
}

}  // namespace weft
