// A set of a model's layers, as text a list of numbers and ranges: "3,7-9".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::ops {

/// The most layers that a model may have.
inline constexpr std::int64_t kMostLayers = 10'000;
/// The most experts of a layer.
inline constexpr std::int64_t kMostExperts = 4096;

class LayerSet {
 public:
  LayerSet() = default;
  /// In ascending order.
  explicit LayerSet(std::vector<std::int64_t> layers) : layers_(std::move(layers)) {}

  bool empty() const { return layers_.empty(); }
  bool contains(std::int64_t layer) const;
  /// The layers whose numbers are below `layers`.
  LayerSet below(std::int64_t layers) const;
  friend bool operator==(const LayerSet&, const LayerSet&) = default;
  friend std::string to_string(const LayerSet& set);

 private:
  std::vector<std::int64_t> layers_;
};

/// The set of a text, which may be empty. `where` names it in messages. Throws UserError.
LayerSet parse_layers(std::string_view text, std::string_view where);

}  // namespace weft::ops
