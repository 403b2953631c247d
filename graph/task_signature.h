// The signature of a task, equal for tasks that cost the same: the operation with its sizes, and its dtype.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace weft::graph {

/// One line by which profiles identify a task: "gemm m=512 n=768 k=768 trans_b f32", "all_reduce channel=data ranks=2
/// count=65536 f32". Fields that are false or zero are left out, and so are floating-point fields, which don't change
/// the cost.
std::string task_signature(const Graph& graph, const Task& task);

/// The dtype in the task's signature: of its first operand in floating point.
DType signature_dtype(const Graph& graph, const Task& task);

/// A collective or an end of a message, as its signature tells it.
struct SignedCollective {
  Operation operation;
  DType dtype = DType::f32;
};

/// Nullopt for the signature of a computation, and for any other text.
std::optional<SignedCollective> collective_of_signature(std::string_view signature);

}  // namespace weft::graph
