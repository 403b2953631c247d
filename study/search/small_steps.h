// The sizes of small training steps from which a large one is extrapolated, because its layers and micro-batches are
// alike.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace weft::study {

/// Two numbers of layers and two of micro-batches; one where the step has no more. In fewer layers than three the first
/// and the last, which have less to overlap with, weigh too much.
///
///   SmallSteps steps(96, 8);
///   for (const auto& [layers, micro_batches] : steps.sizes()) values.push_back(measure(layers, micro_batches));
///   const double whole = steps.extrapolated(values);
class SmallSteps {
 public:
  struct Size {
    std::int64_t layers = 1, micro_batches = 1;
  };
  SmallSteps(std::int64_t layers, std::int64_t micro_batches);
  /// With few and with more layers and micro-batches than by default.
  SmallSteps(std::int64_t layers, std::int64_t micro_batches, const std::array<std::int64_t, 2>& of_layers,
             const std::array<std::int64_t, 2>& of_micro_batches);

  /// By micro-batches, then by layers.
  std::vector<Size> sizes() const;
  /// The whole step's value: each layer and each micro-batch more is taken to add the same. `values`: by size.
  double extrapolated(const std::vector<double>& values) const;

 private:
  std::int64_t all_layers_, all_micro_batches_;
  std::array<std::int64_t, 2> layers_, micro_batches_;  // few and more of them; equal: all that the step has
};

}  // namespace weft::study
