// Costs of tasks, which policies, simulator, bounds and explanations share.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft::cost {

/// By task of one graph, in nanoseconds, each ≥ 0.
struct TaskCosts {
  std::vector<double> ns;      // time of a task that runs alone on its resources
  std::vector<double> cpu_ns;  // core time that a collective's transport takes from the rank's computations; 0 for
                               // computations
  /// Time of a collective that runs beside computations on the same cores, ≥ ns. Empty: equal to ns.
  std::vector<double> beside_ns = {};
  /// Time for which a collective's bytes occupy its link, at most ns; the rest is latency, during which others can use
  /// the link. Empty: equal to ns.
  std::vector<double> link_ns = {};

  /// By task: link_ns, or ns where they are equal.
  const std::vector<double>& on_link() const { return link_ns.empty() ? ns : link_ns; }
};

/// Computes the cost of each task from its operation and sizes. Pure: equal graphs get equal costs.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual TaskCosts costs(const graph::Graph& graph) const = 0;
  /// The source of the numbers, for reports: "machine laptop", "profile of 24 kinds, 2 ranks".
  virtual std::string source() const = 0;
};

}  // namespace weft::cost
