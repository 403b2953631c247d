// A plan as Chakra execution traces (MLCommons; et_def.proto): what ASTRA-sim and other simulators replay.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "runtime/plan/plan.h"

namespace weft::inspect {

/// One file a rank, {prefix}.{rank}.et, and one of communicator groups. A node a task, numbered in the plan's order:
/// computations as COMP_NODE with operations and bytes, collectives as COMM_COLL_NODE with type, size and group,
/// messages between stages as COMM_SEND_NODE and COMM_RECV_NODE with their ends, size and tag. data_deps are the edges
/// that tasks complete before; ctrl_deps the order of streams and edges of issue. Edges into the next step are left
/// out.
class ChakraTraces {
 public:
  /// `plans`: of each rank class. `ns`: how long each task takes, by class and task id. Durations are whole
  /// microseconds, 1 at least. The plans must outlive this.
  ChakraTraces(const std::vector<const plan::Plan*>& plans, const graph::Grid& grid,
               std::vector<std::vector<double>> ns);

  /// The bytes of a rank's file. Ranks of a class differ in their groups and peers alone.
  std::string trace(std::int64_t rank) const;
  /// {"1": [0, 1], "2": [2, 3]}: the groups of all channels that the plans use.
  std::string groups() const;

 private:
  struct Class {
    const plan::Plan* plan;
    std::vector<double> ns;
    std::vector<std::vector<std::uint64_t>> data_deps = {}, ctrl_deps = {};  // by place in the plan's order
  };
  void add_groups(const plan::Plan& plan);

  const graph::Grid grid_;
  std::vector<Class> classes_;
  std::vector<std::vector<std::int64_t>> groups_;                           // their names count from 1
  std::map<graph::Channel, std::map<std::int64_t, std::size_t>> group_of_;  // by channel and colour
};

}  // namespace weft::inspect
