#include "train/checkpoint/adapter_file.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/lora_parameters.h"
#include "train/checkpoint/adapter_config.h"
#include "train/checkpoint/safetensors.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

const ParameterState& matrix_of(std::span<const ParameterState> parameters, const ParameterState& a) {
  const auto found = std::ranges::find_if(
      parameters, [&](const ParameterState& p) { return p.spec->name == ops::adapted_weight(*a.spec); });
  if (found == parameters.end()) throw std::logic_error("no matrix of the adapter " + a.spec->name);
  return *found;
}

template <class Weight, class Element>
void add_products(const ParameterState& weight, const ParameterState& a, const ParameterState& b) {
  const ops::AdapterPart& adapter = a.spec->adapter.value();
  const auto rank = static_cast<std::size_t>(adapter.rank), cols = static_cast<std::size_t>(weight.spec->cols);
  std::vector<float> sum(cols);
  for (std::size_t part = 0; part < adapter.rows.size(); ++part) {
    const ops::StoredTensor& stored = b.spec->stored[part];
    const Element* const down = static_cast<const Element*>(a.data) + part * rank * cols;
    for (std::int64_t row = 0; row < stored.rows; ++row) {
      Weight* const to = static_cast<Weight*>(weight.data) + static_cast<std::size_t>(adapter.rows[part] + row) * cols;
      const Element* const up =
          static_cast<const Element*>(b.data) + static_cast<std::size_t>(stored.row_begin + row) * rank;
      std::ranges::fill(sum, 0.0F);
      for (std::size_t r = 0; r < rank; ++r) {
        const float factor = adapter.scale * static_cast<float>(up[r]);
        for (std::size_t col = 0; col < cols; ++col) sum[col] += factor * static_cast<float>(down[r * cols + col]);
      }
      for (std::size_t col = 0; col < cols; ++col) to[col] = Weight(static_cast<float>(to[col]) + sum[col]);
    }
  }
}

/// Calls visit with a value of the dtype's type.
template <class Visit>
void with_element(DType dtype, const Visit& visit) {
  dtype == DType::bf16 ? visit(bf16()) : visit(float());
}

}  // namespace

ParameterReader open_parameters_and_adapters(const WeightPaths& paths, const ops::ModelConfig& model,
                                             std::span<const ParameterState> parameters, const ReadShare& share,
                                             std::span<const ops::ParameterSpec> elsewhere) {
  if (paths.adapters.empty()) return open_parameters(paths.model, model, parameters, share, elsewhere);
  std::vector<ParameterState> own;
  std::ranges::copy_if(parameters, std::back_inserter(own), [](const auto& p) { return !ops::is_adapter(*p.spec); });
  struct Opened {
    Opened(const fs::path& folder, ops::Family family) : tensors(folder, family) {}
    AdapterTensors tensors;
    TensorSources sources;
  };
  const auto opened = std::make_shared<Opened>(paths.adapters, model.family);
  for (const ParameterState& parameter : parameters) {
    if (!ops::is_adapter(*parameter.spec)) continue;
    for (const ops::StoredTensor& piece : parameter.spec->stored) {
      opened->sources.emplace(
          &piece, whole_source(opened->tensors.file(), opened->tensors.stored(piece), *parameter.spec, piece));
    }
  }
  return
      [opened, of_model = open_parameters(paths.model, model, own, share, elsewhere)](const ParameterState& parameter) {
        ops::is_adapter(*parameter.spec) ? read_from(opened->sources, parameter) : of_model(parameter);
      };
}

void load_parameters_and_adapters(const WeightPaths& paths, const ops::ModelConfig& model,
                                  std::span<const ParameterState> parameters, const ReadShare& share,
                                  std::span<const ops::ParameterSpec> elsewhere) {
  const ParameterReader read = open_parameters_and_adapters(paths, model, parameters, share, elsewhere);
  for (const ParameterState& parameter : parameters) read(parameter);
}

std::map<std::string, FileSummary> save_adapter(const fs::path& folder, const ops::ModelConfig& model,
                                                std::span<const ParameterState> parameters, const std::string& base,
                                                const ArrayOf& array_of) {
  std::vector<ParameterState> adapters;
  std::ranges::copy_if(parameters, std::back_inserter(adapters),
                       [](const ParameterState& parameter) { return ops::is_adapter(*parameter.spec); });
  std::map<std::string, FileSummary> files;
  files[kAdapterConfigFile] = write_durable(folder / kAdapterConfigFile, peft_config_json(model, base));
  files[kAdapterFile] = write_safetensors(folder / kAdapterFile, weight_tensors(adapters, array_of));
  return files;
}

void merge_adapters(std::span<const ParameterState> parameters) {
  for (std::size_t i = 0; i + 1 < parameters.size(); ++i) {
    const ParameterState &a = parameters[i], &b = parameters[i + 1];  // A is followed by its B
    if (!a.spec->adapter || a.spec->adapter->side != ops::AdapterSide::a) continue;
    const ParameterState& weight = matrix_of(parameters, a);
    with_element(weight.dtype, [&](auto to) {
      with_element(a.dtype, [&](auto from) { add_products<decltype(to), decltype(from)>(weight, a, b); });
    });
  }
}

}  // namespace weft::train
