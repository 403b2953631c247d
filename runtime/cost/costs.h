// What tasks cost: the common ground of policies, simulator, bounds and explanations.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft::cost {

/// By task of one graph, in nanoseconds, each ≥ 0.
struct TaskCosts {
  std::vector<double> ns;      // how long a task takes when it runs alone on its resources
  std::vector<double> cpu_ns;  // of `ns`, what a collective's transport takes from the rank's cores; 0 for computations
  std::vector<double> beside_ns = {};  // of a collective beside computations on the same cores, ≥ ns; empty: as ns
};

/// Knows what a task costs from its operation and the sizes that it works on. Pure: equal graphs get equal costs.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual TaskCosts costs(const graph::Graph& graph) const = 0;
  /// Where its numbers come from, for reports: "machine laptop", "profile of 24 kinds, 2 ranks".
  virtual std::string source() const = 0;
};

}  // namespace weft::cost
