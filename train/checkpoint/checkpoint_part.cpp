// Entries of files and of the manifest, for whole tensors and for pieces of them. The manifest's shards as regions of
// matrices, checked, opened when an array wants some of them.
#include "train/checkpoint/checkpoint_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/files/input_file.h"
#include "kernels/cpu/non_finite.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/hf_config.h"

namespace weft::train {
namespace {

bool whole(const ParameterState& parameter, const BlockRange& range) {
  if (parameter.shard == nullptr) return true;
  const std::int64_t elements = parameter.spec->rows * parameter.spec->cols;
  const auto& runs = parameter.shard->runs;
  return range.begin == 0 && range.end == elements && runs.size() == 1 && runs.front().global == 0 &&
         runs.front().count == elements;
}

bool holds_whole_parameters(std::span<const ParameterState> parameters) {
  return std::ranges::all_of(parameters, [](const ParameterState& p) { return whole(p, p.kept()); });
}

std::string entry_of(const ops::StoredTensor& stored, std::string_view content) {
  return content == kParameterContent ? stored.name : fmt::format("{}.{}", stored.name, content);
}

/// Adds all of a tensor's array to a file, in Hugging Face's layout: every rank holds it, and one writes.
void add_whole(const ParameterState& parameter, const ops::StoredTensor& stored, const std::string& content,
               DType dtype, const void* array, CheckpointPart::File& file, std::vector<StoredShard>& shards) {
  const ops::ParameterSpec& spec = *parameter.spec;
  StoredShard shard;
  shard.file = file.name;
  shard.entry = entry_of(stored, content);
  shard.tensor = stored.name;
  shard.content = content;
  shard.dtype = stored_type(dtype).name;
  shard.layout = !spec.matrix ? "out" : stored.transposed ? "in, out" : "out, in";
  shard.global_shape = shard.block_end = stored_shape(spec, stored);
  shard.block_begin.assign(shard.global_shape.size(), 0);
  shard.range_end = static_cast<std::uint64_t>(whole_region(spec, stored).elements());
  file.tensors.push_back({shard.entry, stored_type(dtype), shard.global_shape,
                          [&spec, &stored, dtype, array](std::vector<std::byte>& scratch) {
                            return pack(spec, stored, dtype, array, scratch);
                          }});
  shards.push_back(std::move(shard));
}

StoredShard shard_of_piece(const ops::ParameterSpec& spec, const ParameterPiece& piece, const std::string& content,
                           DType dtype) {
  const auto unsigned_of = [](std::initializer_list<std::int64_t> values) {
    return std::vector<std::uint64_t>(values.begin(), values.end());
  };
  const Region& region = piece.region;
  StoredShard shard;
  shard.tensor = piece.stored->name;
  shard.content = content;
  shard.dtype = stored_type(dtype).name;
  shard.layout = spec.matrix ? "out, in" : "out";
  shard.global_shape = spec.matrix ? unsigned_of({piece.stored->rows, spec.cols}) : unsigned_of({piece.stored->rows});
  shard.block_begin = spec.matrix ? unsigned_of({region.row_begin, region.col_begin}) : unsigned_of({region.col_begin});
  shard.block_end = spec.matrix ? unsigned_of({region.row_end, region.col_end}) : unsigned_of({region.col_end});
  shard.range_begin = static_cast<std::uint64_t>(region.range_begin);
  shard.range_end = static_cast<std::uint64_t>(region.range_end);
  return shard;
}

/// The block's shape where the shard is all of it, else a list of elements.
std::vector<std::uint64_t> shape_of(const ops::ParameterSpec& spec, const Region& region) {
  const auto elements = static_cast<std::uint64_t>(region.elements());
  if (!spec.matrix || !region.whole_block()) return {elements};
  return {static_cast<std::uint64_t>(region.row_end - region.row_begin), static_cast<std::uint64_t>(region.width())};
}

/// Adds the pieces of one array to a file.
void add_pieces(const ParameterState& parameter, const std::string& content, DType dtype, const void* array,
                std::span<const ParameterPiece> pieces, CheckpointPart::File& file, std::vector<StoredShard>& shards) {
  std::map<const ops::StoredTensor*, int> pieces_of_tensor;
  const std::size_t size = size_of(dtype);
  for (const ParameterPiece& piece : pieces) {
    StoredShard shard = shard_of_piece(*parameter.spec, piece, content, dtype);
    const int number = ++pieces_of_tensor[piece.stored];
    shard.file = file.name;
    shard.entry = entry_of(*piece.stored, content) + (number > 1 ? fmt::format("#{}", number) : "");
    const std::span<const std::byte> bytes(
        static_cast<const std::byte*>(array) + static_cast<std::size_t>(piece.local) * size,
        static_cast<std::size_t>(piece.region.elements()) * size);
    file.tensors.push_back({shard.entry, stored_type(dtype), shape_of(*parameter.spec, piece.region),
                            [bytes](std::vector<std::byte>&) { return bytes; }});
    shards.push_back(std::move(shard));
  }
}

/// The small files of a checkpoint, by name.
std::map<std::string, std::string> texts_of(const CheckpointInfo& info, DType dtype) {
  std::map<std::string, std::string> texts = {{kModelConfigFile, hf_config_json(info.model, dtype, info.ends)}};
  if (!info.gemm_tuning.empty()) texts.emplace(execute::kGemmTuningFile, info.gemm_tuning);
  for (const text::TokenizerFile& file : info.tokenizer) texts.emplace(file.name, file.content);
  return texts;
}

/// The manifest of a rank's part, with a summary of each file by tensors(file) or text(name, content).
template <class Tensors, class Text>
Manifest manifest_of(const CheckpointInfo& info, int rank, std::span<const ParameterState> parameters, RankHolds holds,
                     const Tensors& tensors, const Text& text) {
  CheckpointPart part = checkpoint_part(rank, parameters, holds);
  Manifest manifest{info, {}, std::move(part.shards)};
  for (CheckpointPart::File& file : part.files) manifest.files[file.name] = tensors(file);
  if (rank != 0) return manifest;
  for (const auto& [name, content] : texts_of(info, dtype_of(parameters))) manifest.files[name] = text(name, content);
  return manifest;
}

/// The index in the parameter of element `index` of an array that holds [from, …) of the block.
std::int64_t global_element(const ParameterState& parameter, std::int64_t from, std::int64_t index) {
  if (parameter.shard == nullptr) return index;
  for (const ops::ElementRun& run : parameter.shard->runs_within(from + index, from + index + 1)) return run.global;
  return -1;
}

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

  std::string text() const { return entry_of(*stored, content); }
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

/// Files of the folder, each opened when its elements are read.
class ShardFiles {
 public:
  explicit ShardFiles(fs::path folder) : folder_(std::move(folder)) {}

  /// It holds until the next call.
  TensorSource open(const PlacedShard& placed) {
    const StoredShard& shard = *placed.shard;
    // A checkpoint of many ranks has more files than a process may have open.
    if (files_.size() >= kMostOpen && !files_.contains(shard.file)) files_.clear();
    auto& file = files_[shard.file];
    if (file == nullptr) file = std::make_unique<SafetensorsFile>(folder_ / shard.file);
    const StoredTensorInfo* tensor = file->find(shard.entry);
    if (tensor == nullptr) {
      throw UserError(fmt::format("{} has no tensor '{}'", in_quotes(file->path()), shard.entry),
                      "what the manifest lists", kUseAnother);
    }
    const auto elements = static_cast<std::uint64_t>(placed.region.elements());
    if (tensor->elements() != elements || tensor->type.name != shard.dtype) {
      throw UserError(fmt::format("{}: tensor '{}' has {} elements of {}", in_quotes(file->path()), shard.entry,
                                  tensor->elements(), tensor->type.name),
                      fmt::format("{} of {}, as the manifest says", elements, shard.dtype), kUseAnother);
    }
    return {elements_of(*file, *tensor), placed.region, placed.transposed};
  }

 private:
  static constexpr std::size_t kMostOpen = 256;

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
  std::vector<Target> targets = {
      {kParameterContent, parameter.dtype, parameter.data, parameter.pieces(parameter.kept())}};
  const auto add = [&](const char* content, float* array) {
    if (array != nullptr) targets.push_back({content, DType::f32, array, parameter.pieces(parameter.updated())});
  };
  const bool all = which == LoadedArrays::all;
  if (all) add("m", parameter.m), add("v", parameter.v);
  add(all && stored_dtype == DType::bf16 ? "master" : kParameterContent, parameter.master);
  return targets;
}

}  // namespace

DType dtype_of(std::span<const ParameterState> parameters) {
  return parameters.empty() ? DType::f32 : parameters.front().dtype;
}

bool holds_everything(std::span<const ParameterState> parameters) {
  return holds_whole_parameters(parameters) &&
         std::ranges::all_of(parameters, [](const ParameterState& p) { return whole(p, p.updated()); });
}

CheckpointPart checkpoint_part(int rank, std::span<const ParameterState> parameters, RankHolds holds) {
  const bool alone = holds == RankHolds::everything;
  const bool whole_model = alone || (holds == RankHolds::every_parameter && holds_whole_parameters(parameters));
  CheckpointPart part;
  CheckpointPart::File model{whole_model && rank == 0 ? kModelFile : fmt::format("model-{:05}.safetensors", rank), {}};
  CheckpointPart::File optimizer{alone ? kOptimizerFile : fmt::format("optimizer-{:05}.safetensors", rank), {}};
  const auto file_of = [&](std::string_view content) -> CheckpointPart::File& {
    return content == kParameterContent ? model : optimizer;
  };
  for (const ParameterState& parameter : parameters) {
    for (const ops::StoredTensor& stored : parameter.spec->stored) {
      const auto add = [&](const char* content, DType dtype, const void* array, const BlockRange&) {
        add_whole(parameter, stored, content, dtype, array, file_of(content), part.shards);
      };
      if (alone) {
        for_each_stored_array(parameter, add);
      } else if (whole_model && rank == 0) {
        add(kParameterContent, parameter.dtype, parameter.data, {});
      }
    }
  }
  for (const ParameterState& parameter : parameters) {
    if (alone) break;
    for_each_stored_array(parameter, [&](const char* content, DType dtype, const void* array, const BlockRange& range) {
      if (whole_model && std::string_view(content) == kParameterContent) return;
      add_pieces(parameter, content, dtype, array, parameter.pieces(range), file_of(content), part.shards);
    });
  }
  for (CheckpointPart::File* file : {&optimizer, &model}) {
    if (alone || !file->tensors.empty()) part.files.push_back(std::move(*file));
  }
  return part;
}

std::vector<std::uint64_t> checkpoint_part_bytes(const CheckpointInfo& info, int rank,
                                                 std::span<const ParameterState> parameters, RankHolds holds) {
  // The manifest's length doesn't depend on the values of the checksums.
  const auto summary = [any_checksum = Crc32c().text()](std::uint64_t bytes) {
    return FileSummary{bytes, any_checksum};
  };
  const Manifest manifest = manifest_of(
      info, rank, parameters, holds,
      [&](CheckpointPart::File& file) { return summary(safetensors_bytes(std::move(file.tensors))); },
      [&](const std::string&, const std::string& content) { return summary(content.size()); });
  std::vector<std::uint64_t> sizes = {to_json(manifest).size()};
  for (const auto& [name, file] : manifest.files) sizes.push_back(file.bytes);
  return sizes;
}

Manifest write_checkpoint_part(const std::filesystem::path& folder, const CheckpointInfo& info, int rank,
                               std::span<const ParameterState> parameters, RankHolds holds) {
  refuse_non_finite(parameters, info.step);
  return manifest_of(
      info, rank, parameters, holds,
      [&](CheckpointPart::File& file) { return write_safetensors(folder / file.name, std::move(file.tensors)); },
      [&](const std::string& name, const std::string& content) { return write_durable(folder / name, content); });
}

void refuse_non_finite(std::span<const ParameterState> parameters, std::int64_t step) {
  for (const ParameterState& parameter : parameters) {
    for_each_stored_array(
        parameter, [&](const std::string& content, DType dtype, void* array, const BlockRange& range) {
          const auto found = cpu::first_non_finite({array, 1, range.size(), range.size(), dtype});
          if (!found) return;
          const bool is_parameter = content == kParameterContent;
          const std::int64_t element = global_element(parameter, range.begin, *found), cols = parameter.spec->cols;
          throw RuntimeFault(
              fmt::format("after step {} {} of {} holds a NaN or an infinity at {}: no checkpoint is written; "
                          "--check-nan names the task that makes the first",
                          step, is_parameter ? "the value" : content, parameter.spec->name,
                          element < 0 ? "its padding" : fmt::format("[{}, {}]", element / cols, element % cols)));
        });
  }
}

ParameterReader open_shards(const fs::path& folder, Manifest manifest, std::span<const ParameterState> parameters,
                            LoadedArrays which, std::span<const ops::ParameterSpec> elsewhere) {
  const bool all = which == LoadedArrays::all;
  const DType dtype = manifest.info.dtype;
  std::vector<std::string> contents = {kParameterContent};
  if (all) contents.insert(contents.end(), {"m", "v"});
  if (all && dtype == DType::bf16) contents.emplace_back("master");

  struct Opened {
    Manifest manifest;  // which the placed shards point into
    std::map<std::pair<const ops::StoredTensor*, std::string>, std::vector<PlacedShard>> placed;
    ShardFiles files;
  };
  const auto opened = std::make_shared<Opened>(Opened{std::move(manifest), {}, ShardFiles(folder)});
  ShardIndex index(folder, opened->manifest, !all);
  for (const ParameterState& parameter : parameters) {
    for (const ops::StoredTensor& stored : parameter.spec->stored) {
      for (const std::string& content : contents) {
        if (parameter.spec->frozen && content != kParameterContent) continue;
        const DType stored_as = content == kParameterContent ? dtype : DType::f32;
        opened->placed[{&stored, content}] =
            index.take({parameter.spec, &stored, content, std::string(stored_type(stored_as).name)});
      }
    }
  }
  index.leave(elsewhere);
  index.expect_empty();
  return [opened, which, dtype](const ParameterState& parameter) {
    clear_padding(parameter);
    for (const Target& target : targets_of(parameter, which, dtype)) {
      for (const ParameterPiece& piece : target.pieces) {
        for (const PlacedShard& shard : opened->placed.at({piece.stored, target.content})) {
          if (touch(shard.region, piece.region)) copy(opened->files.open(shard), piece, target.dtype, target.array);
        }
      }
    }
  };
}

}  // namespace weft::train
