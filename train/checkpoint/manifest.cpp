// Writing a manifest, and reading one with checks of every value.
#include "train/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/text/json_object.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft::train {
namespace {

constexpr const char* kFormat = "weft-checkpoint";
constexpr std::int64_t kVersion = 2;
constexpr const char* kValLoss = "val_loss";
constexpr const char* kDecaySeconds = "decay_seconds";
constexpr const char* kTokenizerDigest = "tokenizer_digest";
constexpr const char* kData = "data";
constexpr const char* kPadded = "padded";
constexpr std::int64_t kMostSteps = 1'000'000'000;  // of any configuration
constexpr std::uint64_t kMostBytesOfManifest = std::uint64_t{512} << 20;

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

/// Calls visit(key, member pointer) for the sizes that only some models have. They are written where they aren't the
/// default, so that manifests of other models stay as they are.
template <class Visit>
void for_each_addition(Visit visit) {
  for (const ops::Addition& addition : ops::additions()) {
    std::string key(addition.key);
    std::ranges::replace(key, '-', '_');
    std::visit([&](auto member) { visit(key.c_str(), member); }, addition.member);
  }
}

/// The same for the members of a data mark, and for its digests.
template <class Mark, class Visit>
void for_each_count(Mark& mark, Visit visit) {
  visit("files", mark.files);
  visit("last_tokens", mark.last_tokens);
}
template <class Mark, class Visit>
void for_each_digest(Mark& mark, Visit visit) {
  visit("digest", mark.digest);
  visit("val_digest", mark.val_digest);
  visit("split", mark.split);
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

template <class Value>
void add_member(JsonObject& object, const char* key, const Value& value) {
  if constexpr (std::is_same_v<Value, float>) {
    object.add(key, shortest_double(value));
  } else if constexpr (std::is_enum_v<Value> || std::is_same_v<Value, ops::LayerSet>) {
    object.add(key, to_string(value));
  } else {
    object.add(key, value);
  }
}

/// Adapters, which only a model with them has. Modules and what they have of their own are written where a version
/// before them couldn't say it: it then refuses the manifest for the members that it lacks.
JsonObject lora_json(const ops::LoraConfig& lora) {
  JsonObject json;
  add_member(json, "rank", lora.rank);
  add_member(json, "alpha", lora.alpha);
  if (lora.is_plain()) {
    for (const ops::LoraGroup& group : ops::kLoraGroups) json.add(group.name, (lora.on & group.modules).any());
    return json;
  }
  JsonObject modules;
  for (const ops::LoraModule module : ops::kLoraModules) {
    if (!lora.has(module)) continue;
    JsonObject own;
    add_member(own, "rank", lora.rank_of(module));
    add_member(own, "alpha", lora.alpha_of(module));
    modules.add(ops::to_string(module), own);
  }
  return json.add("rslora", lora.rslora).add("modules", modules);
}

JsonObject model_json(const ops::ModelConfig& model) {
  JsonObject sizes;
  sizes.add("family", ops::to_string(model.family));
  for_each_size(model, [&](const char* key, const auto& value) { add_member(sizes, key, value); });
  const ops::ModelConfig usual;
  for_each_addition([&](const char* key, auto member) {
    if (model.*member != usual.*member) add_member(sizes, key, model.*member);
  });
  if (model.lora.used()) {
    sizes.add("lora", lora_json(model.lora));
  }
  return sizes;
}

/// One member of a model.
template <class Value>
void read_member(const DocumentValue& value, Value& member) {
  if constexpr (std::is_same_v<Value, std::int64_t>) {
    member = static_cast<std::int64_t>(std::min(value.count(), std::uint64_t{1} << 62));  // for validate()
  } else if constexpr (std::is_same_v<Value, float>) {
    member = value.float_number();
  } else if constexpr (std::is_same_v<Value, bool>) {
    member = value.boolean();
  } else if constexpr (std::is_same_v<Value, ops::RopeKind>) {
    member = value.one_of({ops::RopeKind::llama3, ops::RopeKind::linear, ops::RopeKind::yarn});
  } else if constexpr (std::is_same_v<Value, ops::LayerSet>) {
    member = ops::parse_layers(value.text(), value.place());
  } else {
    member = value.text();
  }
}

ops::Family family_of(const DocumentValue& name) {
  std::vector<std::string> names;
  for (const ops::FamilyParts& parts : ops::all_families()) names.emplace_back(parts.name);
  const std::string known = name.name_of(names);
  return std::ranges::find(ops::all_families(), known, &ops::FamilyParts::name)->family;
}

ops::LoraConfig lora_from(const DocumentValue& json) {
  ops::LoraConfig lora;
  read_member(json["rank"], lora.rank);
  read_member(json["alpha"], lora.alpha);
  lora.on.reset();
  const auto modules = json.find("modules");
  if (!modules) {
    for (const ops::LoraGroup& group : ops::kLoraGroups) {
      if (json[group.name].boolean()) lora.on |= group.modules;
    }
    return lora;
  }
  lora.rslora = json["rslora"].boolean();
  for (const ops::LoraModule module : ops::kLoraModules) {
    const auto own = modules->find(ops::to_string(module));
    if (!own) continue;
    const auto i = static_cast<std::size_t>(module);
    lora.on |= ops::only(module);
    read_member((*own)["rank"], lora.own_rank.at(i));
    read_member((*own)["alpha"], lora.own_alpha.at(i));
    if (lora.own_rank.at(i) == lora.rank) lora.own_rank.at(i) = 0;
    if (lora.own_alpha.at(i) == lora.alpha) lora.own_alpha.at(i) = 0;
  }
  return lora;
}

ops::ModelConfig model_from(const DocumentValue& sizes) {
  ops::ModelConfig model;
  model.family = family_of(sizes["family"]);
  for_each_size(model, [&](const char* key, auto& value) { read_member(sizes[key], value); });
  for_each_addition([&](const char* key, auto member) {
    if (sizes.find(key)) read_member(sizes[key], model.*member);
  });
  if (const auto lora = sizes.find("lora")) model.lora = lora_from(*lora);
  ops::validate(model);
  return model;
}

JsonObject shard_json(const StoredShard& shard) {
  JsonObject entry;
  for_each_text(shard, [&](const char* key, const std::string& value) { entry.add(key, value); });
  JsonArray block;
  for (std::size_t i = 0; i < shard.block_begin.size(); ++i) {
    block.add(JsonArray{shard.block_begin[i], shard.block_end[i]});
  }
  return entry.add("global_shape", shard.global_shape)
      .add("block", block)
      .add("range", JsonArray{shard.range_begin, shard.range_end});
}

std::pair<std::uint64_t, std::uint64_t> interval_of(const DocumentValue& value) {
  const auto ends = value.items(2, "[begin, end]");
  const std::pair interval(ends[0].count(), ends[1].count());
  if (interval.first > interval.second) value.refuse("[begin, end], begin ≤ end");
  return interval;
}

void check_extent(const StoredShard& shard, const DocumentValue& entry) {
  if (shard.block_begin.size() != shard.global_shape.size()) {
    entry.refuse(fmt::format("has a block of {} dimensions", shard.block_begin.size()),
                 fmt::format("{}, as the global shape", shard.global_shape.size()));
  }
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < shard.global_shape.size(); ++i) {
    if (shard.block_end[i] > shard.global_shape[i]) {
      entry.refuse(fmt::format("has a block up to {}", shard.block_end[i]),
                   fmt::format("at most {}, the dimension of the tensor", shard.global_shape[i]));
    }
    if (__builtin_mul_overflow(elements, shard.block_end[i] - shard.block_begin[i], &elements)) {
      entry.refuse("has more than 2^64 elements", "a tensor that fits a machine");
    }
  }
  if (shard.range_end > elements) {
    entry.refuse(fmt::format("has a range up to {}", shard.range_end),
                 fmt::format("at most {}, the elements of its block", elements));
  }
}

StoredShard shard_from(const DocumentValue& entry) {
  StoredShard shard;
  for_each_text(shard, [&](const char* key, std::string& value) { value = entry[key].text(); });
  for (const DocumentValue& dimension : entry["global_shape"].items()) shard.global_shape.push_back(dimension.count());
  for (const DocumentValue& interval : entry["block"].items()) {
    const auto [begin, end] = interval_of(interval);
    shard.block_begin.push_back(begin);
    shard.block_end.push_back(end);
  }
  std::tie(shard.range_begin, shard.range_end) = interval_of(entry["range"]);
  check_extent(shard, entry);
  return shard;
}

std::uint64_t digest_from(const DocumentValue& value) {
  const auto digest = parse_hex_fingerprint(value.text());
  if (!digest) value.refuse(kHexFingerprint);
  return *digest;
}

DataMark data_mark_from(const DocumentValue& data) {
  DataMark mark;
  for_each_count(mark, [&](const char* key, std::uint64_t& count) { count = data[key].count(); });
  for_each_digest(mark, [&](const char* key, std::uint64_t& digest) { digest = digest_from(data[key]); });
  return mark;
}

Manifest manifest_from(const DocumentValue& manifest) {
  Manifest result;
  CheckpointInfo& info = result.info;
  info.step = manifest["step"].integer(0, kMostSteps);
  info.seed = manifest["seed"].count();
  info.tokens_seen = manifest["tokens_seen"].count();
  info.dtype = manifest["dtype"].one_of({DType::f32, DType::bf16});
  if (const auto loss = manifest.find(kValLoss)) info.val_loss = loss->number();
  if (const auto seconds = manifest.find(kDecaySeconds))
    info.decay_seconds = seconds->number({.least = 0, .above = true}, "a time");
  if (const auto digest = manifest.find(kTokenizerDigest)) info.tokenizer_digest = digest_from(*digest);
  if (const auto data = manifest.find(kData)) info.data = data_mark_from(*data);
  if (const auto padded = manifest.find(kPadded)) info.padded = padded->boolean();
  for (const auto& [library, version] : manifest["versions"].members()) info.versions[library] = version.text();
  info.model = model_from(manifest["model"]);
  info.config_toml = manifest["config"].text();
  if (const auto base = manifest.find("base")) info.base = base->text();
  for (const auto& [file, summary] : manifest["files"].members()) {
    if (!is_plain_file_name(file)) summary.refuse(fmt::format("is a file '{}'", file), "names without folders");
    result.files[file] = {summary["bytes"].count(), summary[kChecksumKey].text()};
  }
  std::set<std::pair<std::string, std::string>> entries;
  for (const DocumentValue& entry : manifest["shards"].items()) {
    StoredShard shard = shard_from(entry);
    if (!result.files.contains(shard.file)) entry["file"].refuse("one of the listed files");
    if (!entries.emplace(shard.file, shard.entry).second) {
      entry.refuse(fmt::format("is the shard '{}' a second time", shard.entry), "each once");
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
  JsonObject files;
  for (const auto& [file, summary] : manifest.files) {
    files.add(file, JsonObject().add("bytes", summary.bytes).add(kChecksumKey, summary.crc32c));
  }
  JsonArray shards;
  for (const StoredShard& shard : manifest.shards) shards.add(shard_json(shard));
  JsonObject json;
  if (!info.base.empty()) json.add("base", info.base);
  json.add("format", kFormat)
      .add("version", kVersion)
      .add("step", info.step)
      .add("seed", info.seed)
      .add("tokens_seen", info.tokens_seen)
      .add("dtype", to_string(info.dtype));
  if (info.val_loss) json.add(kValLoss, *info.val_loss);
  if (info.decay_seconds > 0) json.add(kDecaySeconds, info.decay_seconds);
  if (info.tokenizer_digest) json.add(kTokenizerDigest, hex_fingerprint(*info.tokenizer_digest));
  if (info.data) {
    JsonObject data;
    for_each_count(*info.data, [&](const char* key, std::uint64_t count) { data.add(key, count); });
    for_each_digest(*info.data, [&](const char* key, std::uint64_t digest) { data.add(key, hex_fingerprint(digest)); });
    json.add(kData, data);
  }
  if (info.padded) json.add(kPadded, true);
  json.add("versions", info.versions)
      .add("model", model_json(info.model))
      .add("files", files)
      .add("shards", shards)
      .add("config", info.config_toml);
  return json_lines(json.add(kChecksumKey, checksum_of_rest(json.text())).text());
}

Manifest parse_manifest(std::string_view json_text, const std::string& name) {
  const Document document = read_json(json_text, name, {.fix = kUseAnother});
  const DocumentValue in = document.of_format("the manifest of a checkpoint", kFormat, kVersion);
  Manifest manifest = manifest_from(in);
  expect_checksum(in);  // last, so that an error is named more precisely if possible
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kManifestFile;
  Manifest manifest = parse_manifest(whole_file(file, kMostBytesOfManifest), in_quotes(file));
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

}  // namespace weft::train
