#include "ops/layer_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace weft::ops {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view where) {
  throw UserError(fmt::format("{} = \"{}\"", where, text),
                  fmt::format("numbers of layers and ranges of them in ascending order, below {}", kMostLayers),
                  "write a list such as \"3,7-9\", or nothing for no layer");
}

}  // namespace

bool LayerSet::contains(std::int64_t layer) const {
  return std::ranges::binary_search(layers_, layer);
}

LayerSet LayerSet::below(std::int64_t layers) const {
  return LayerSet({layers_.begin(), std::ranges::lower_bound(layers_, layers)});
}

std::string to_string(const LayerSet& set) {
  std::string text;
  for (auto first = set.layers_.begin(); first != set.layers_.end();) {
    auto last = first;
    while (last + 1 != set.layers_.end() && *(last + 1) == *last + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", *first);
    if (last != first) text += fmt::format("-{}", *last);
    first = last + 1;
  }
  return text;
}

LayerSet parse_layers(std::string_view text, std::string_view where) {
  std::vector<std::int64_t> layers;
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&] {
    std::int64_t value = -1;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || value >= kMostLayers) refuse(text, where);
    at = next;
    return value;
  };
  while (at != end) {
    const std::int64_t first = number();
    const std::int64_t last = at != end && *at == '-' ? (++at, number()) : first;
    if (last < first || (!layers.empty() && first <= layers.back())) refuse(text, where);
    for (std::int64_t layer = first; layer <= last; ++layer) layers.push_back(layer);
    if (at == end) break;
    if (*at != ',' || ++at == end) refuse(text, where);
  }
  return LayerSet(std::move(layers));
}

}  // namespace weft::ops
