// The signature of a task, equal for tasks that cost the same: the operation with its sizes, and its dtype.
#pragma once

#include <string>

#include "graph/graph.h"

namespace weft::graph {

/// One line by which profiles identify a task: "gemm m=512 n=768 k=768 trans_b f32", "all_reduce channel=data ranks=2
/// count=65536 f32". Fields that are false or zero are left out, and so are floating-point fields, which don't change
/// the cost.
std::string task_signature(const Graph& graph, const Task& task);

}  // namespace weft::graph
