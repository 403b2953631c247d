// What makes two tasks cost the same: the operation with its sizes, and the dtype that it works on.
#pragma once

#include <string>

#include "graph/graph.h"

namespace weft::graph {

/// "gemm m=512 n=768 k=768 trans_b f32", "all_reduce channel=data ranks=2 count=65536 f32": one line, by which profiles
/// know a task. Fields that are false or zero are left out; those of floating point too, since they cost nothing.
std::string task_signature(const Graph& graph, const Task& task);

}  // namespace weft::graph
