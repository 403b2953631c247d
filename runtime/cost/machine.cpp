#include "runtime/cost/machine.h"

#include <algorithm>

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

}  // namespace weft::cost
