// Entries of files and of the manifest, for whole tensors and for pieces of them.
#include "train/checkpoint/checkpoint_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "base/error.h"
#include "runtime/execute/non_finite.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/checkpoint/hf_config.h"

namespace weft::train {
namespace {

bool whole(const ops::ParameterSpec& spec, const ops::ParameterShard& shard, std::int64_t from, std::int64_t to) {
  const std::int64_t elements = spec.rows * spec.cols;
  return from == 0 && to == elements && shard.runs.size() == 1 && shard.runs.front().global == 0 &&
         shard.runs.front().count == elements;
}

bool holds_whole_parameters(std::span<const ParameterState> parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [](const ParameterState& p) {
    return p.shard == nullptr || whole(*p.spec, *p.shard, p.shard->begin, p.shard->end);
  });
}

bool holds_whole_optimizer(std::span<const ParameterState> parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [](const ParameterState& p) {
    return p.shard == nullptr || whole(*p.spec, *p.shard, p.shard->update_begin, p.shard->update_end);
  });
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
  shard.dtype = to_string(stored_type(dtype));
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
  shard.dtype = to_string(stored_type(dtype));
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
  std::map<std::string, std::string> texts = {{kModelConfigFile, hf_config_json(info.model, dtype)}};
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

}  // namespace

DType dtype_of(std::span<const ParameterState> parameters) {
  return parameters.empty() ? DType::f32 : parameters.front().dtype;
}

bool holds_everything(std::span<const ParameterState> parameters) {
  return holds_whole_parameters(parameters) && holds_whole_optimizer(parameters);
}

std::vector<std::pair<std::string, float*>> optimizer_arrays(const ParameterState& parameter) {
  if (parameter.spec->frozen) return {};
  std::vector<std::pair<std::string, float*>> arrays = {{"m", parameter.m}, {"v", parameter.v}};
  if (parameter.dtype == DType::bf16) arrays.emplace_back("master", parameter.master);
  for (const auto& [content, array] : arrays) {
    if (array == nullptr || parameter.data == nullptr) {
      throw std::invalid_argument("checkpoint: " + parameter.spec->name + " has no array for " + content);
    }
  }
  return arrays;
}

CheckpointPart checkpoint_part(int rank, std::span<const ParameterState> parameters, RankHolds holds) {
  const bool alone = holds == RankHolds::everything;
  const bool whole_model = alone || (holds == RankHolds::every_parameter && holds_whole_parameters(parameters));
  CheckpointPart part;
  CheckpointPart::File model{whole_model && rank == 0 ? kModelFile : fmt::format("model-{:05}.safetensors", rank), {}};
  CheckpointPart::File optimizer{alone ? kOptimizerFile : fmt::format("optimizer-{:05}.safetensors", rank), {}};
  for (const ParameterState& parameter : parameters) {
    for (const ops::StoredTensor& stored : parameter.spec->stored) {
      if (whole_model && rank == 0)
        add_whole(parameter, stored, kParameterContent, parameter.dtype, parameter.data, model, part.shards);
      if (!alone) continue;
      for (const auto& [content, array] : optimizer_arrays(parameter)) {
        add_whole(parameter, stored, content, DType::f32, array, optimizer, part.shards);
      }
    }
  }
  for (const ParameterState& parameter : parameters) {
    if (alone) break;
    for_each_stored_array(parameter, [&](const char* content, DType dtype, const void* array,
                                         const std::vector<ParameterPiece>& pieces, std::int64_t) {
      const bool is_parameter = std::string_view(content) == kParameterContent;
      if (is_parameter && whole_model) return;
      add_pieces(parameter, content, dtype, array, pieces, is_parameter ? model : optimizer, part.shards);
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
    for_each_stored_array(parameter, [&](const std::string& content, DType dtype, void* array,
                                         const std::vector<ParameterPiece>&, std::int64_t elements) {
      const auto found = execute::first_non_finite({array, 1, elements, elements, dtype});
      if (!found) return;
      const bool is_parameter = content == kParameterContent;
      const ops::ParameterShard* shard = parameter.shard;
      const std::int64_t from = shard == nullptr ? 0 : is_parameter ? shard->begin : shard->update_begin;
      const std::int64_t element = global_element(parameter, from, *found), cols = parameter.spec->cols;
      throw RuntimeFault(
          fmt::format("after step {} {} of {} holds a NaN or an infinity at {}: no checkpoint is written; "
                      "--check-nan names the task that makes the first",
                      step, is_parameter ? "the value" : content, parameter.spec->name,
                      element < 0 ? "its padding" : fmt::format("[{}, {}]", element / cols, element % cols)));
    });
  }
}

}  // namespace weft::train
