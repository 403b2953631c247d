// Exposed collectives that differ in layer and micro-batch alone, as one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/simulate/exposed_collective.h"

namespace weft::simulate {

/// Exposed collectives of one cause that differ in the numbers of layer and micro-batch alone.
struct ExposureGroup {
  std::string name;                  // "mb*.L*.mlp.up.bwd.all_reduce_dx"; of a single one its own
  std::vector<std::size_t> members;  // of Explanation::collectives, by falling exposed time
  double exposed_ns = 0;             // sum
};

/// `collectives` by falling exposed time.
std::vector<ExposureGroup> exposure_groups(const SimulatedStep& step,
                                           const std::vector<ExposedCollective>& collectives);

}  // namespace weft::simulate
