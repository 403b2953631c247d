// The manifest's shards as regions of matrices, checked, opened when an array wants some of them.
#include "train/checkpoint/checkpoint_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_part.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/tensor_source.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOtherModel = "give the model family and sizes of the checkpoint";

/// A shard with its place in the matrix [out, in].
struct PlacedShard {
  const StoredShard* shard = nullptr;
  Region region;
  bool transposed = false;
};

/// The properties that a stored tensor must have.
struct WantedTensor {
  const ops::ParameterSpec* spec;
  const ops::StoredTensor* stored;
  std::string content;
  std::string dtype;

  std::string text() const {
    return content == kParameterContent ? stored->name : fmt::format("{}.{}", stored->name, content);
  }
};

/// Places a shard, whose block lies within its global shape (see parse_manifest).
PlacedShard place(const StoredShard& shard, const WantedTensor& wanted, const std::string& name) {
  const ops::ParameterSpec& spec = *wanted.spec;
  const auto rows = static_cast<std::uint64_t>(wanted.stored->rows), cols = static_cast<std::uint64_t>(spec.cols);
  const bool transposed = spec.matrix && shard.layout == "in, out";
  const char* layout = !spec.matrix ? "out" : transposed ? "in, out" : "out, in";
  const std::vector<std::uint64_t> shape = !spec.matrix ? std::vector{rows}
                                           : transposed ? std::vector{cols, rows}
                                                        : std::vector{rows, cols};
  if (shard.global_shape != shape || shard.layout != layout) {
    throw UserError(fmt::format("{}: tensor '{}' has shape {} ({})", name, wanted.text(),
                                shape_text(shard.global_shape), shard.layout),
                    fmt::format("{} ({}) for this model", shape_text(shape), layout), kOtherModel);
  }
  if (shard.dtype != wanted.dtype) {
    throw UserError(fmt::format("{}: tensor '{}' is stored as {}", name, wanted.text(), shard.dtype), wanted.dtype,
                    kUseAnother);
  }
  const auto at = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  const auto &begin = shard.block_begin, &end = shard.block_end;
  Region region{0, 1, at(begin.back()), at(end.back()), at(shard.range_begin), at(shard.range_end)};
  if (transposed) {
    region = {at(begin[1]), at(end[1]), at(begin[0]), at(end[0]), at(shard.range_begin), at(shard.range_end)};
  } else if (spec.matrix) {
    region.row_begin = at(begin[0]);
    region.row_end = at(end[0]);
  }
  if (transposed && !region.whole_block()) {
    throw UserError(fmt::format("{}: tensor '{}' has a range of a block in layout in, out", name, wanted.text()),
                    "whole blocks in that layout", kUseAnother);
  }
  return {&shard, region, transposed};
}

/// The shards of the model's tensors.
class ShardIndex {
 public:
  ShardIndex(const fs::path& folder, const Manifest& manifest, bool parameters_only)
      : name_(in_quotes(folder / kManifestFile)) {
    for (const StoredShard& shard : manifest.shards) {
      if (parameters_only && shard.content != kParameterContent) continue;
      by_tensor_[{shard.tensor, shard.content}].push_back(&shard);
    }
  }

  /// In the order of the manifest; each tensor is taken once.
  std::vector<PlacedShard> take(const WantedTensor& wanted) {
    const auto found = by_tensor_.find({wanted.stored->name, wanted.content});
    if (found == by_tensor_.end()) {
      throw UserError(fmt::format("{} has no tensor '{}'", name_, wanted.text()), "all parameters of the model",
                      kOtherModel);
    }
    std::vector<PlacedShard> placed;
    std::vector<Region> regions;
    for (const StoredShard* shard : found->second) {
      placed.push_back(place(*shard, wanted, name_));
      regions.push_back(placed.back().region);
    }
    const Region whole = whole_region(*wanted.spec, *wanted.stored);
    if (const std::string fault = cover_fault(whole.row_end, whole.col_end, regions); !fault.empty()) {
      throw UserError(fmt::format("{}: the stored parts of tensor '{}' {}", name_, wanted.text(), fault),
                      "each element once", kUseAnother);
    }
    by_tensor_.erase(found);
    return placed;
  }

  /// Other ranks take the tensors of these parameters.
  void leave(std::span<const ops::ParameterSpec> elsewhere) {
    std::set<std::string_view> names;
    for (const ops::ParameterSpec& spec : elsewhere) {
      for (const ops::StoredTensor& stored : spec.stored) names.insert(stored.name);
    }
    std::erase_if(by_tensor_, [&](const auto& entry) { return names.contains(entry.first.first); });
  }

  void expect_empty() const {
    if (by_tensor_.empty()) return;
    const auto& [tensor, content] = by_tensor_.begin()->first;
    throw UserError(fmt::format("{} lists '{}' of a tensor '{}' that the model doesn't have ({} such in all)", name_,
                                content, tensor, by_tensor_.size()),
                    "the parameters of the model only", kOtherModel);
  }

 private:
  std::string name_;
  std::map<std::pair<std::string, std::string>, std::vector<const StoredShard*>> by_tensor_;
};

/// Files of the folder, each opened at the first read of its elements.
class ShardFiles {
 public:
  explicit ShardFiles(fs::path folder) : folder_(std::move(folder)) {}

  TensorSource open(const PlacedShard& placed) {
    const StoredShard& shard = *placed.shard;
    auto& file = files_[shard.file];
    if (file == nullptr) file = std::make_unique<SafetensorsFile>(folder_ / shard.file);
    const StoredTensorInfo* tensor = file->find(shard.entry);
    if (tensor == nullptr) {
      throw UserError(fmt::format("{} has no tensor '{}'", in_quotes(file->path()), shard.entry),
                      "what the manifest lists", kUseAnother);
    }
    const auto elements = static_cast<std::uint64_t>(placed.region.elements());
    if (tensor->elements() != elements || to_string(tensor->type) != shard.dtype) {
      throw UserError(fmt::format("{}: tensor '{}' has {} elements of {}", in_quotes(file->path()), shard.entry,
                                  tensor->elements(), to_string(tensor->type)),
                      fmt::format("{} of {}, as the manifest says", elements, shard.dtype), kUseAnother);
    }
    return {file.get(), tensor, placed.region, placed.transposed};
  }

 private:
  fs::path folder_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

bool touch(const Region& a, const Region& b) {
  return std::max(a.row_begin, b.row_begin) < std::min(a.row_end, b.row_end) &&
         std::max(a.col_begin, b.col_begin) < std::min(a.col_end, b.col_end);
}

struct Target {
  std::string content;  // source of its elements
  DType dtype;
  void* array;
  std::vector<ParameterPiece> pieces;
};

std::vector<Target> targets_of(const ParameterState& parameter, LoadedArrays which, DType stored_dtype) {
  std::vector<Target> targets = {{kParameterContent, parameter.dtype, parameter.data, parameter.kept_pieces()}};
  const auto add = [&](const char* content, float* array) {
    if (array != nullptr) targets.push_back({content, DType::f32, array, parameter.updated_pieces()});
  };
  const bool all = which == LoadedArrays::all;
  if (all) add("m", parameter.m), add("v", parameter.v);
  add(all && stored_dtype == DType::bf16 ? "master" : kParameterContent, parameter.master);
  return targets;
}

}  // namespace

void load_shards(const fs::path& folder, const Manifest& manifest, std::span<const ParameterState> parameters,
                 LoadedArrays which, std::span<const ops::ParameterSpec> elsewhere) {
  const bool all = which == LoadedArrays::all;
  const DType dtype = manifest.info.dtype;
  std::vector<std::string> contents = {kParameterContent};
  if (all) contents.insert(contents.end(), {"m", "v"});
  if (all && dtype == DType::bf16) contents.emplace_back("master");

  ShardIndex index(folder, manifest, !all);
  std::map<std::pair<const ops::StoredTensor*, std::string>, std::vector<PlacedShard>> placed;
  for (const ParameterState& parameter : parameters) {
    for (const ops::StoredTensor& stored : parameter.spec->stored) {
      for (const std::string& content : contents) {
        if (parameter.spec->frozen && content != kParameterContent) continue;
        const DType stored_as = content == kParameterContent ? dtype : DType::f32;
        placed[{&stored, content}] =
            index.take({parameter.spec, &stored, content, std::string(to_string(stored_type(stored_as)))});
      }
    }
  }
  index.leave(elsewhere);
  index.expect_empty();

  ShardFiles files(folder);
  for (const ParameterState& parameter : parameters) {
    clear_padding(parameter);
    for (const Target& target : targets_of(parameter, which, dtype)) {
      for (const ParameterPiece& piece : target.pieces) {
        for (const PlacedShard& shard : placed.at({piece.stored, target.content})) {
          if (touch(shard.region, piece.region)) copy(files.open(shard), piece, target.dtype, target.array);
        }
      }
    }
  }
}

}  // namespace weft::train
