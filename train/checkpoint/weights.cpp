// Finds the files of a model, gives their tensors one spelling, and matches them with the parameters.
#include "train/checkpoint/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/gguf_file.h"
#include "base/files/input_file.h"
#include "base/text/json_object.h"
#include "train/checkpoint/checkpoint_part.h"
#include "train/checkpoint/gguf_weights.h"
#include "train/checkpoint/hf_config.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kStackedRouter = ".mlp.gate.weight";  // beside stacked experts, of all families
constexpr const char* kWeightsIndex = "model.safetensors.index.json";
constexpr std::uint64_t kMostBytesOfIndex = std::uint64_t{64} << 20;

std::uint64_t bytes_of(const TensorToWrite& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), tensor.type.size, std::multiplies<>());
}

std::vector<fs::path> shard_paths(const fs::path& index) {
  const Document document = read_json(whole_file(index, kMostBytesOfIndex), in_quotes(index), {.fix = kRepair});
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : document.root()["weight_map"].members()) {
    const std::string name = shard.text();
    if (!is_plain_file_name(name)) {
      throw UserError(fmt::format("{} names the file '{}'", in_quotes(index), name), "files in the folder of the index",
                      kRepair);
    }
    shards.insert(name);
  }
  if (shards.empty()) document.root()["weight_map"].refuse("names no files", "files by tensor");
  std::vector<fs::path> paths;
  for (const std::string& shard : shards) paths.push_back(index.parent_path() / shard);
  return paths;
}

/// The name that ParameterSpec::stored would give to a file's tensor.
std::string canonical(std::string name, ops::Family family) {
  const ops::StoredNames& names = *ops::parts_of(family).stored;
  if (!names.prefix.empty()) return name.starts_with(names.prefix) ? name.substr(names.prefix.size()) : name;
  if (!name.starts_with("model.") && name != kHead) name.insert(0, "model.");
  if (!names.router.empty() && name.ends_with(kStackedRouter)) {
    name.replace(name.size() - kStackedRouter.size(), kStackedRouter.size(), fmt::format(".{}.weight", names.router));
  }
  return name;
}

/// The tensor in which transformers 5 stacks a matrix of all experts, [experts, rows, cols]; "" of other parameters.
/// Its elements are in the order of the parameter's.
std::string stacked_name(const ops::ParameterSpec& spec, ops::Family family) {
  const bool up = spec.name.ends_with(".mlp.experts.up.weight");
  if (!up && !spec.name.ends_with(".mlp.experts.down.weight")) return "";
  const std::string& first = spec.stored.front().name;
  const std::size_t layer = first.find(ops::parts_of(family).stored->experts);
  return fmt::format("{}mlp.experts.{}", first.substr(0, layer), up ? "gate_up_proj" : "down_proj");
}

/// Constants that some versions of transformers saved.
bool is_buffer(std::string_view name, ops::Family family) {
  if (!ops::parts_of(family).learned_positions) return name.ends_with(".rotary_emb.inv_freq");
  return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

struct Located {
  const SafetensorsFile* file = nullptr;
  const StoredTensorInfo* tensor = nullptr;
};

class WeightFiles {
 public:
  WeightFiles(const fs::path& path, ops::Family family) {
    for (const fs::path& shard : weight_files(path)) {
      const SafetensorsFile& file = files_.emplace_back(shard);
      for (const StoredTensorInfo& tensor : file.tensors()) {
        const std::string name = canonical(tensor.name, family);
        if (is_buffer(name, family)) continue;
        expect_floats(file, tensor);
        if (!tensors_.emplace(name, Located{&file, &tensor}).second) {
          throw UserError(fmt::format("{} holds tensor '{}' a second time", in_quotes(shard), name), "each once",
                          "leave one of the files out");
        }
      }
    }
  }

  Located take(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      throw UserError(fmt::format("{} has no tensor '{}'", in_quotes(files_.front().path()), name),
                      "all parameters of the model", "give the model family and sizes of the file");
    }
    const Located located = found->second;
    tensors_.erase(found);
    return located;
  }
  /// Another rank takes it.
  void leave(const std::string& name) { tensors_.erase(name); }
  bool has(std::string_view name) const { return tensors_.contains(std::string(name)); }
  void expect_empty() const {
    if (tensors_.empty()) return;
    const auto& [name, located] = *tensors_.begin();
    throw UserError(fmt::format("{} has a tensor '{}' that the model doesn't ({} such in all)",
                                in_quotes(located.file->path()), located.tensor->name, tensors_.size()),
                    "the parameters of the model only", "give the model family and sizes of the file");
  }

 private:
  std::deque<SafetensorsFile> files_;  // which tensors_ points into
  std::map<std::string, Located> tensors_;
};

/// Compares piece by piece, so that a large vocabulary takes little memory.
bool equal_elements(const Located& one, const Located& other) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  const std::uint64_t size = one.tensor->end - one.tensor->begin;
  std::vector<std::byte> a, b;
  for (std::uint64_t first = 0; first < size; first += kPiece) {
    for (std::vector<std::byte>* const piece : {&a, &b}) piece->resize(std::min(kPiece, size - first));
    one.file->read_bytes(*one.tensor, first, a);
    other.file->read_bytes(*other.tensor, first, b);
    if (a != b) return false;
  }
  return true;
}

/// The parts of stacked experts that `spec.stored` names.
void add_stacked(const Located& stack, const ops::ParameterSpec& spec, std::int64_t experts, TensorSources& sources) {
  const auto as_size = [](std::int64_t size) { return static_cast<std::uint64_t>(size); };
  expect_shape(*stack.file, *stack.tensor, {as_size(experts), as_size(spec.rows / experts), as_size(spec.cols)});
  for (const ops::StoredTensor& piece : spec.stored) {
    const std::uint64_t begin = as_size(piece.row_begin * spec.cols);
    ElementReader part = [read = elements_of(*stack.file, *stack.tensor), begin](
                             std::uint64_t first, std::span<float> out) { read(begin + first, out); };
    sources.emplace(&piece, TensorSource{std::move(part), whole_region(spec, piece), false});
  }
}

void expect_equal(const Located& head, const Located& embedding) {
  const bool equal = head.tensor->type == embedding.tensor->type && head.tensor->shape == embedding.tensor->shape &&
                     equal_elements(head, embedding);
  if (equal) return;
  throw UserError(fmt::format("{}: tensor '{}' differs from '{}'", in_quotes(head.file->path()), head.tensor->name,
                              embedding.tensor->name),
                  "equal tensors, because the model ties them",
                  "set \"tie_word_embeddings\" to false in config.json beside it: then both count");
}

}  // namespace

void read_from(const TensorSources& sources, const ParameterState& parameter) {
  clear_padding(parameter);
  const auto kept = parameter.pieces(parameter.kept()), updated = parameter.pieces(parameter.updated());
  for (const ops::StoredTensor& piece : parameter.spec->stored) {
    const TensorSource& source = sources.at(&piece);
    copy(source, piece, kept, parameter.dtype, parameter.data);
    if (parameter.master != nullptr) copy(source, piece, updated, DType::f32, parameter.master);
  }
}

std::vector<fs::path> weight_files(const fs::path& path) {
  std::error_code none;  // a path that can't be read counts as absent
  if (!fs::exists(path, none)) {
    throw UserError(in_quotes(path) + " doesn't exist", "a .safetensors file or a folder with one", "check the path");
  }
  if (!fs::is_directory(path, none)) return {path};
  if (fs::exists(path / kModelFile, none)) return {path / kModelFile};
  if (fs::exists(path / kWeightsIndex, none)) return shard_paths(path / kWeightsIndex);
  throw UserError(in_quotes(path) + " holds no model.safetensors", "weights as safetensors",
                  fs::exists(path / "pytorch_model.bin", none) ? "convert pytorch_model.bin: save_pretrained(folder, "
                                                                 "safe_serialization=True)"
                                                               : "give the folder or file of a model");
}

ParameterReader open_weights(const fs::path& path, const ops::ModelConfig& model,
                             std::span<const ParameterState> parameters,
                             std::span<const ops::ParameterSpec> elsewhere) {
  if (is_gguf(path)) return open_gguf_weights(path, model, parameters, elsewhere);
  struct Opened {
    WeightFiles files;
    TensorSources sources = {};
  };
  const auto opened = std::make_shared<Opened>(Opened{WeightFiles(path, model.family)});
  WeightFiles& files = opened->files;
  const std::string embedding = std::string(model.parts().stored->embedding) + ".weight";
  for (const ParameterState& parameter : parameters) {
    const std::string stack = stacked_name(*parameter.spec, model.family);
    if (!stack.empty() && files.has(stack)) {
      add_stacked(files.take(stack), *parameter.spec, model.experts, opened->sources);
      continue;
    }
    for (const ops::StoredTensor& piece : parameter.spec->stored) {
      const Located found = files.take(piece.name);
      opened->sources.emplace(&piece, whole_source(*found.file, *found.tensor, *parameter.spec, piece));
      if (model.tied && piece.name == embedding && files.has(kHead)) {
        expect_equal(files.take(std::string(kHead)), found);
      }
    }
  }
  for (const ops::ParameterSpec& spec : elsewhere) {
    files.leave(stacked_name(spec, model.family));
    for (const ops::StoredTensor& piece : spec.stored) {
      files.leave(piece.name);
      if (model.tied && piece.name == embedding) files.leave(std::string(kHead));
    }
  }
  files.expect_empty();
  return [opened](const ParameterState& parameter) { read_from(opened->sources, parameter); };
}

void load_weights(const fs::path& path, const ops::ModelConfig& model, std::span<const ParameterState> parameters,
                  std::span<const ops::ParameterSpec> elsewhere) {
  const ParameterReader read = open_weights(path, model, parameters, elsewhere);
  for (const ParameterState& parameter : parameters) read(parameter);
}

std::vector<TensorToWrite> weight_tensors(std::span<const ParameterState> parameters, const ArrayOf& array_of) {
  std::vector<TensorToWrite> tensors;
  for (const ParameterState& parameter : parameters) {
    for (const ops::StoredTensor& piece : parameter.spec->stored) {
      tensors.push_back({piece.name, stored_type(parameter.dtype), stored_shape(*parameter.spec, piece),
                         [&parameter, &piece, array_of](std::vector<std::byte>& scratch) {
                           const void* const array = array_of ? array_of(parameter) : parameter.data;
                           return pack(*parameter.spec, piece, parameter.dtype, array, scratch);
                         }});
    }
  }
  return tensors;
}

std::vector<std::vector<TensorToWrite>> weight_shards(std::span<const ParameterState> parameters,
                                                      std::uint64_t shard_bytes, const ArrayOf& array_of) {
  std::vector<std::vector<TensorToWrite>> shards(1);
  std::uint64_t filled = 0;
  for (TensorToWrite& tensor : weight_tensors(parameters, array_of)) {
    const std::uint64_t bytes = bytes_of(tensor);
    if (filled > 0 && filled + bytes > shard_bytes) shards.emplace_back(), filled = 0;
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::map<std::string, FileSummary> save_weights(const fs::path& folder, const ops::ModelConfig& model,
                                                std::span<const ParameterState> parameters, std::uint64_t shard_bytes,
                                                const std::optional<TextEnds>& ends, const ArrayOf& array_of) {
  std::map<std::string, FileSummary> files;
  files[kModelConfigFile] = write_durable(folder / kModelConfigFile, hf_config_json(model, dtype_of(parameters), ends));
  auto shards = weight_shards(parameters, shard_bytes, array_of);
  if (shards.size() == 1) {
    files[kModelFile] = write_safetensors(folder / kModelFile, std::move(shards.front()));
    return files;
  }
  std::map<std::string, std::string> shard_of;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const TensorToWrite& tensor : shards[i]) {
      shard_of[tensor.name] = name;
      total += bytes_of(tensor);
    }
    files[name] = write_safetensors(folder / name, std::move(shards[i]));
  }
  const JsonObject metadata = JsonObject().add("total_parameters", model.parameters()).add("total_size", total);
  const std::string index = JsonObject().add("metadata", metadata).add("weight_map", shard_of).text();
  files[kWeightsIndex] = write_durable(folder / kWeightsIndex, indented_json(index) + "\n");
  return files;
}

}  // namespace weft::train
