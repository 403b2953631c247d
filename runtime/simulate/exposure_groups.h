// Groups of exposed collectives that only differ in layer and micro-batch.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/simulate/exposed_collective.h"
#include "runtime/simulate/remedy.h"

namespace weft::simulate {

/// Exposed collectives with the same cause that only differ in the numbers of layer and micro-batch.
struct ExposureGroup {
  std::string name;                   // "mb*.L*.mlp.up.bwd.all_reduce_dx"; the own name of a single collective
  std::vector<std::size_t> members;   // of Explanation::collectives, by falling exposed time
  double exposed_ns = 0;              // sum
  std::vector<Remedy> remedies = {};  // by falling gain; of all members at once
};

/// The name that collectives share which only differ in layer and micro-batch: "mb0.L3.mlp.up" becomes "mb*.L*.mlp.up".
std::string group_name(const std::string& name);

/// `collectives` by falling exposed time.
std::vector<ExposureGroup> exposure_groups(const SimulatedStep& step,
                                           const std::vector<ExposedCollective>& collectives);

}  // namespace weft::simulate
