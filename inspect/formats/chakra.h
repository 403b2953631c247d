// A plan as Chakra execution traces (MLCommons; et_def.proto): what ASTRA-sim and other simulators replay.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "runtime/plan/plan.h"

namespace weft::inspect {

/// One file a rank, {prefix}.{rank}.et, and one of communicator groups. A node a task, numbered in the plan's order:
/// computations as COMP_NODE with operations and bytes, collectives as COMM_COLL_NODE with type, size and group.
/// data_deps are the edges that tasks complete before; ctrl_deps the order of streams and edges of issue. Edges into
/// the next step are left out.
class ChakraTraces {
 public:
  /// `ns`: how long each task takes, by task id. Durations are whole microseconds, 1 at least. The plan must outlive
  /// this.
  ChakraTraces(const plan::Plan& plan, const graph::Grid& grid, std::vector<double> ns);

  /// The bytes of a rank's file. Ranks differ in their groups alone.
  std::string trace(std::int64_t rank) const;
  /// {"1": [0, 1], "2": [2, 3]}: the groups of all channels that the plan uses.
  std::string groups() const;

 private:
  const plan::Plan& plan_;
  const graph::Grid grid_;
  const std::vector<double> ns_;
  std::vector<std::vector<std::uint64_t>> data_deps_, ctrl_deps_;  // by place in the plan's order
  std::vector<std::vector<std::int64_t>> groups_;                  // their names count from 1
  std::array<std::map<std::int64_t, std::size_t>, 6> group_of_;    // by channel and colour
};

}  // namespace weft::inspect
