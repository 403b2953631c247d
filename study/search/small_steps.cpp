#include "study/search/small_steps.h"

#include <set>

namespace weft::study {
namespace {

constexpr std::array<std::int64_t, 2> kLayers = {3, 5}, kMicroBatches = {2, 5};

std::array<std::int64_t, 2> few_and_more(const std::array<std::int64_t, 2>& sizes, std::int64_t all) {
  if (all <= sizes[1]) return {all, all};
  return sizes;
}

double along(const std::array<std::int64_t, 2>& sizes, std::int64_t all, double few, double more) {
  if (sizes[0] == sizes[1]) return few;
  return few + (more - few) * static_cast<double>(all - sizes[0]) / static_cast<double>(sizes[1] - sizes[0]);
}

}  // namespace

SmallSteps::SmallSteps(std::int64_t layers, std::int64_t micro_batches)
    : SmallSteps(layers, micro_batches, kLayers, kMicroBatches) {}

SmallSteps::SmallSteps(std::int64_t layers, std::int64_t micro_batches, const std::array<std::int64_t, 2>& of_layers,
                       const std::array<std::int64_t, 2>& of_micro_batches)
    : all_layers_(layers),
      all_micro_batches_(micro_batches),
      layers_(few_and_more(of_layers, layers)),
      micro_batches_(few_and_more(of_micro_batches, micro_batches)) {}

std::vector<SmallSteps::Size> SmallSteps::sizes() const {
  std::vector<Size> all;
  for (const std::int64_t micro_batches : std::set(micro_batches_.begin(), micro_batches_.end())) {
    for (const std::int64_t layers : std::set(layers_.begin(), layers_.end())) all.push_back({layers, micro_batches});
  }
  return all;
}

double SmallSteps::extrapolated(const std::vector<double>& values) const {
  const std::size_t of_layers = layers_[0] == layers_[1] ? 1 : 2;
  const auto along_layers = [&](std::size_t first) {
    return along(layers_, all_layers_, values[first], values[first + of_layers - 1]);
  };
  return along(micro_batches_, all_micro_batches_, along_layers(0), along_layers(values.size() - of_layers));
}

}  // namespace weft::study
