// A task's accesses as the arguments of a kernel, in the shapes that the operation documents. Whatever device runs it.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "graph/operation.h"
#include "kernels/cpu/gemm/matrix.h"
#include "runtime/comm/communicator.h"

namespace weft {

/// A view of a tensor whose memory begins at `begin`.
cpu::Matrix matrix_of(const Graph& graph, const View& view, std::byte* begin);

/// The arguments, in the order that graph/operation.h gives, in the operation's shapes: a contiguous one may come in
/// any shape of the right size. Throws std::logic_error if their number or sizes don't fit the operation, and for
/// collectives, which communicators run.
std::vector<cpu::Matrix> fitted_arguments(const Operation& operation, std::vector<cpu::Matrix> arguments);

/// A collective's task as a communicator takes it.
CollectiveCall collective_call(const Graph& graph, const Task& task, const std::vector<cpu::Matrix>& arguments);

/// Throws std::logic_error.
[[noreturn]] void refuse_collective();

}  // namespace weft
