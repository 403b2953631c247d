// The median of measured times, which a single slow run hardly changes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weft {

/// The upper of the two middle values if their number is even; 0 if there are none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace weft
