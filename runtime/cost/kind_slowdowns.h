// How the collectives of one graph slow its computations down, by the kinds of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/machine.h"

namespace weft::cost {

/// A table of Machine::slowdown() for the kinds that the graph has.
class KindSlowdowns {
 public:
  /// Without a graph or a machine, nothing is slowed down.
  KindSlowdowns() = default;
  KindSlowdowns(const graph::Graph& graph, const Machine* machine);

  std::uint32_t kind(std::size_t task) const { return kind_[task]; }
  /// The kinds of a computation and of a collective (Operation, is_collective()).
  double factor(std::uint32_t computation, std::uint32_t collective) const {
    return factors_.empty() ? 1 : factors_[computation * collectives_ + collective];
  }
  bool none() const { return factors_.empty(); }

 private:
  std::vector<std::uint32_t> kind_;  // by task; collectives have the first numbers
  std::size_t collectives_ = 0;      // number of their kinds
  std::vector<double> factors_;      // [kind][collective's kind]; empty: all are 1
};

}  // namespace weft::cost
