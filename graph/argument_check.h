// Holds the accesses of a task to the schema of its operation.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace weft::graph {

/// Throws std::logic_error with the argument's name, what was found and what the schema expects: a wrong number of
/// accesses, or one of another mode, shape or dtype. `tensors` are those that the accesses name.
void check_arguments(const Task& task, std::span<const Tensor> tensors);

}  // namespace weft::graph
