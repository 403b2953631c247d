// Matches the tensors of a file with the parameters. GGUF keeps all matrices [out, in], GPT-2's too.
#include "train/checkpoint/gguf_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/input_file.h"
#include "train/checkpoint/gguf_blocks.h"
#include "train/checkpoint/gguf_model.h"

namespace weft::train {
namespace {

constexpr const char* kGgufOther = "give the sizes and the family of the file's model, or leave them out";
/// Tensors whose numbers are part of the model's sizes, or equal another tensor.
constexpr std::array<std::string_view, 2> kNoParameters = {"rope_freqs.weight", "output.weight"};

std::string name_in_gguf(const ops::StoredTensor& stored) {
  auto name = gguf_tensor_name(stored.name);
  if (!name) throw UserError("a tensor '" + stored.name + "'", "the parameters of GGUF's models", "--format hf");
  return *std::move(name);
}

std::vector<std::uint64_t> gguf_shape(const ops::ParameterSpec& spec, const ops::StoredTensor& stored) {
  const auto rows = static_cast<std::uint64_t>(stored.rows);
  return spec.matrix ? std::vector{rows, static_cast<std::uint64_t>(spec.cols)} : std::vector{rows};
}

/// Whether a tensor has the rows of heads, in the order of rotated neighbours.
bool has_neighbour_rows(std::string_view architecture, std::string_view name) {
  const auto is_of = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return pairs_neighbours(architecture) && (is_of(".attn_q.") || is_of(".attn_k."));
}

/// The elements in Hugging Face's order of rows; `cols` elements each.
ElementReader reordered(ElementReader read, std::int64_t head_size, std::int64_t cols) {
  return [read = std::move(read), head_size, cols](std::uint64_t first, std::span<float> out) {
    while (!out.empty()) {
      const auto row = static_cast<std::int64_t>(first) / cols, col = static_cast<std::int64_t>(first) % cols;
      const auto part = std::min(out.size(), static_cast<std::size_t>(cols - col));
      read(static_cast<std::uint64_t>(neighbour_row(row, head_size) * cols + col), out.first(part));
      first += part;
      out = out.subspan(part);
    }
  };
}

/// Refuses the tensor unless it has this shape and a type that is read.
void expect_tensor(const GgufFile& file, const GgufTensor& tensor, const std::vector<std::uint64_t>& shape) {
  if (tensor.shape != shape) {
    throw UserError(
        fmt::format("{}: tensor '{}' has shape {}", in_quotes(file.path()), tensor.name, shape_text(tensor.shape)),
        fmt::format("{} for this model", shape_text(shape)), kGgufOther);
  }
  read_elements(file, tensor, 0, {});
}

class GgufTensors {
 public:
  explicit GgufTensors(const GgufFile& file) : file_(file) {
    for (const GgufTensor& tensor : file.tensors()) {
      if (std::ranges::find(kNoParameters, tensor.name) == kNoParameters.end()) left_.insert(tensor.name);
    }
  }

  const GgufTensor& take(const std::string& name) {
    left_.erase(name);
    if (const GgufTensor* tensor = file_.find(name)) return *tensor;
    throw UserError(fmt::format("{} has no tensor '{}'", in_quotes(file_.path()), name), "all parameters of the model",
                    kGgufOther);
  }
  void leave(const std::string& name) { left_.erase(name); }
  void expect_empty() const {
    if (left_.empty()) return;
    throw UserError(fmt::format("{} has a tensor '{}' that the model doesn't ({} such in all)", in_quotes(file_.path()),
                                *left_.begin(), left_.size()),
                    "the parameters of the model only", kGgufOther);
  }

 private:
  const GgufFile& file_;
  std::set<std::string_view> left_;
};

/// The rows of a parameter's tensor in the order of the file, as floats.
std::vector<float> rows_of(const ParameterState& parameter, const ops::StoredTensor& stored, const void* array,
                           std::int64_t head_size) {
  const std::int64_t cols = parameter.spec->matrix ? parameter.spec->cols : 1;
  std::vector<float> values(static_cast<std::size_t>(stored.rows * cols));
  const auto copy_from = [&](const auto* elements) {
    for (std::int64_t row = 0; row < stored.rows; ++row) {
      const auto* from = elements + (stored.row_begin + row) * cols;
      const std::int64_t to = head_size > 0 ? neighbour_row(row, head_size) : row;
      std::transform(from, from + cols, values.begin() + to * cols,
                     [](auto value) { return static_cast<float>(value); });
    }
  };
  if (parameter.dtype == DType::bf16) {
    copy_from(static_cast<const bf16*>(array));
  } else {
    copy_from(static_cast<const float*>(array));
  }
  return values;
}

const GgufType& written_type(const ops::ParameterSpec& spec, std::string_view name, const GgufType& type) {
  if (!spec.matrix || name == "position_embd.weight") return gguf_type("F32");
  return static_cast<std::uint64_t>(spec.cols) % type.block == 0 ? type : gguf_type("F16");
}

std::span<const std::byte> packed(const std::string& name, const GgufType& type, std::span<const float> values,
                                  std::vector<std::byte>& scratch) {
  // A block's scale is its largest number's.
  if (type.block > 1 && !std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
    throw UserError(fmt::format("tensor '{}' holds a NaN or an infinity", name),
                    fmt::format("finite numbers for {}", type.name), "--gguf-type f32, which keeps them");
  }
  scratch.resize(values.size() / type.block * type.bytes);
  quantize(type, values, scratch);
  return scratch;
}

}  // namespace

ParameterReader open_gguf_weights(const std::filesystem::path& path, const ops::ModelConfig& model,
                                  std::span<const ParameterState> parameters,
                                  std::span<const ops::ParameterSpec> elsewhere) {
  struct Opened {
    explicit Opened(const std::filesystem::path& of) : file(of) {}
    GgufFile file;
    std::map<const ops::StoredTensor*, TensorSource> sources = {};
  };
  const auto opened = std::make_shared<Opened>(path);
  const GgufFile& file = opened->file;
  const std::string& architecture = file.text("general.architecture");
  GgufTensors tensors(file);
  for (const ParameterState& parameter : parameters) {
    const ops::ParameterSpec& spec = *parameter.spec;
    for (const ops::StoredTensor& stored : spec.stored) {
      const GgufTensor& tensor = tensors.take(name_in_gguf(stored));
      expect_tensor(file, tensor, gguf_shape(spec, stored));
      ElementReader read = [&file, &tensor](std::uint64_t first, std::span<float> out) {
        read_elements(file, tensor, first, out);
      };
      if (has_neighbour_rows(architecture, tensor.name)) {
        read = reordered(std::move(read), model.head_dim(), spec.matrix ? spec.cols : 1);
      }
      opened->sources.emplace(&stored, TensorSource{std::move(read), whole_region(spec, stored), false});
    }
  }
  for (const ops::ParameterSpec& spec : elsewhere) {
    for (const ops::StoredTensor& stored : spec.stored) tensors.leave(name_in_gguf(stored));
  }
  tensors.expect_empty();
  return [opened](const ParameterState& parameter) {
    clear_padding(parameter);
    const auto kept = parameter.pieces(parameter.kept()), updated = parameter.pieces(parameter.updated());
    for (const ops::StoredTensor& stored : parameter.spec->stored) {
      const TensorSource& source = opened->sources.at(&stored);
      copy(source, stored, kept, parameter.dtype, parameter.data);
      if (parameter.master != nullptr) copy(source, stored, updated, DType::f32, parameter.master);
    }
  };
}

std::vector<GgufTensorToWrite> gguf_tensors(const ops::ModelConfig& model, std::span<const ParameterState> parameters,
                                            const GgufType& type, const ArrayOf& array_of) {
  const std::string architecture = gguf_architecture(model);
  std::vector<GgufTensorToWrite> tensors;
  if (const std::vector<float> factors = gguf_rope_factors(model); !factors.empty()) {
    tensors.push_back(
        {"rope_freqs.weight", gguf_type("F32"), {factors.size()}, [factors](std::vector<std::byte>& scratch) {
           return packed("rope_freqs.weight", gguf_type("F32"), factors, scratch);
         }});
  }
  for (const ParameterState& parameter : parameters) {
    for (const ops::StoredTensor& stored : parameter.spec->stored) {
      const std::string name = name_in_gguf(stored);
      const GgufType& own = written_type(*parameter.spec, name, type);
      const std::int64_t head = has_neighbour_rows(architecture, name) ? model.head_dim() : 0;
      tensors.push_back({name, own, gguf_shape(*parameter.spec, stored),
                         [&parameter, &stored, &own, name, head, array_of](std::vector<std::byte>& scratch) {
                           const void* const array = array_of ? array_of(parameter) : parameter.data;
                           return packed(name, own, rows_of(parameter, stored, array, head), scratch);
                         }});
    }
  }
  return tensors;
}

void add_gguf_model(const ops::ModelConfig& model, const GgufType& type, GgufMetadata& metadata) {
  // llama.cpp's numbers for "all in this type, but for vectors".
  using NumberOfType = std::pair<std::string_view, std::uint32_t>;
  constexpr std::array kFileTypes = {NumberOfType{"F32", 0}, NumberOfType{"F16", 1}, NumberOfType{"Q8_0", 7},
                                     NumberOfType{"BF16", 32}};
  add_gguf_sizes(model, metadata);
  metadata.text("general.type", "model");
  for (const auto& [name, number] : kFileTypes) {
    if (name == type.name) metadata.integer("general.file_type", number);
  }
  if (type.block > 1) metadata.integer("general.quantization_version", 2);
}

}  // namespace weft::train
