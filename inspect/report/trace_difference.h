// Two recordings side by side: which tasks became slower, and how that changed the step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/text/json_object.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Medians over all traced ranks and steps, in nanoseconds; `a` and `b` are the two recordings'.
struct ValueChange {
  std::string name;
  double a = 0, b = 0;
  double change() const { return b - a; }
};

struct TraceDifference {
  std::string policy_a, policy_b;
  std::vector<ValueChange> sums;   // step, computing, communicating, exposed, idle
  std::vector<ValueChange> kinds;  // of a step's sum by kind; greatest change first
  std::vector<ValueChange> tasks;  // in both; greatest change first
  std::vector<std::string> only_a, only_b;
};

TraceDifference compare_recordings(const plan::Recording& a, const plan::Recording& b);

/// For a terminal of `width` columns, with at most `most` tasks of each sort.
StyledText styled_difference(const TraceDifference& difference, std::size_t most, std::optional<std::size_t> width);
JsonObject difference_json(const TraceDifference& difference);

}  // namespace weft::inspect
