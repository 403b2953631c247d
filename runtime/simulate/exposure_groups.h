// Groups of exposed collectives that only differ in layer and micro-batch.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/simulate/exposed_collective.h"

namespace weft::simulate {

/// Exposed collectives with the same cause that only differ in the numbers of layer and micro-batch.
struct ExposureGroup {
  std::string name;                  // "mb*.L*.mlp.up.bwd.all_reduce_dx"; the own name of a single collective
  std::vector<std::size_t> members;  // of Explanation::collectives, by falling exposed time
  double exposed_ns = 0;             // sum
};

/// `collectives` by falling exposed time.
std::vector<ExposureGroup> exposure_groups(const SimulatedStep& step,
                                           const std::vector<ExposedCollective>& collectives);

}  // namespace weft::simulate
