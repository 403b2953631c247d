// The chain of tasks that a simulated step's length comes from, in pieces of one kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/simulate/simulated_step.h"

namespace weft::simulate {

/// A piece of the chain of tasks that the step's length comes from: of one kind, one after the other.
struct PathPiece {
  std::string kind;  // "gemm", "all_reduce on y"
  graph::Phase phase = graph::Phase::forward;
  std::string first, last;
  std::int64_t tasks = 0;
  double ns = 0;
};

/// In time, from the last task back to the first: each one's latest reason to wait.
std::vector<PathPiece> path_pieces(const SimulatedStep& step);

}  // namespace weft::simulate
