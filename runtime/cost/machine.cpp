#include "runtime/cost/machine.h"

#include <algorithm>
#include <cmath>

namespace weft::cost {

double Machine::slowdown(std::string_view compute, std::string_view collective) const {
  const auto matches = [](const std::string& wanted, std::string_view kind) {
    return wanted.empty() || wanted == kind;
  };
  const auto found = std::ranges::find_if(slowdowns, [&](const Slowdown& slowdown) {
    return matches(slowdown.compute, compute) && matches(slowdown.collective, collective);
  });
  return found == slowdowns.end() ? 1.0 : found->factor;
}

double Machine::congestion_of(std::int64_t nodes) const {
  Congestion before{1, 1.0};
  for (const Congestion& point : congestion) {
    if (nodes < point.nodes) {
      const auto logarithm = [](std::int64_t n) { return std::log2(static_cast<double>(n)); };
      const double part =
          (logarithm(nodes) - logarithm(before.nodes)) / (logarithm(point.nodes) - logarithm(before.nodes));
      return before.factor + part * (point.factor - before.factor);
    }
    before = point;
  }
  return before.factor;
}

}  // namespace weft::cost
