#include "tools/streamed_parameters.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "train/checkpoint/adapter_file.h"

namespace weft::tools {
namespace {

constexpr std::size_t kMostKept = 2;

}  // namespace

std::vector<train::ParameterState> StreamedParameters::states() const {
  std::vector<train::ParameterState> states;
  for (const ops::ParameterSpec& spec : specs_) states.push_back({&spec, saved_.dtype});
  return states;
}

const void* StreamedParameters::array_of(const train::ParameterState& parameter) {
  const auto found = std::ranges::find(kept_, parameter.spec, &Array::spec);
  if (found != kept_.end()) return found->bytes.data();
  if (kept_.size() == kMostKept) kept_.pop_front();
  return kept_.emplace_back(loaded(*parameter.spec)).bytes.data();
}

StreamedParameters::Array StreamedParameters::read(const ops::ParameterSpec& spec, DType dtype) const {
  Array array{&spec, Buffer(spec.rows * spec.cols * static_cast<std::int64_t>(size_of(dtype)))};
  read_(array.state(dtype));
  return array;
}

StreamedParameters::Array StreamedParameters::loaded(const ops::ParameterSpec& spec) const {
  Array weight = read(spec, saved_.dtype);
  std::vector<Array> adapters;
  for (const ops::ParameterSpec& other : specs_) {
    if (!merges_ || !ops::is_adapter(other) || ops::adapted_weight(other) != spec.name) continue;
    adapters.push_back(read(other, DType::f32));
  }
  if (adapters.empty()) return weight;
  std::vector<train::ParameterState> merged = {weight.state(saved_.dtype)};
  for (Array& adapter : adapters) merged.push_back(adapter.state(DType::f32));
  train::merge_adapters(merged);
  return weight;
}

}  // namespace weft::tools
