// The critical path of a simulated step, in pieces of one kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/simulate/simulated_step.h"

namespace weft::simulate {

/// A piece of the critical path: consecutive tasks of one kind.
struct PathPiece {
  std::string kind;  // "gemm", "all_reduce on y"
  graph::Phase phase = graph::Phase::forward;
  std::string first, last;
  std::int64_t tasks = 0;
  double ns = 0;
};

/// The critical path in order of time: from the step's last task back, each task's predecessor is the one it waited for
/// longest.
std::vector<PathPiece> path_pieces(const SimulatedStep& step);

}  // namespace weft::simulate
