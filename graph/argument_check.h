// Checks the accesses of a task against the schema of its operation.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace weft::graph {

/// Throws std::logic_error if the number of accesses is wrong, or an access has another mode, shape or dtype than the
/// schema. The message has the argument's name, what was found and what the schema expects. `tensors` are all tensors
/// of the graph.
void check_arguments(const Task& task, std::span<const Tensor> tensors);

}  // namespace weft::graph
