// The addresses of the tensors of one rank's plans in host memory.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "kernels/cpu/matrix.h"
#include "runtime/execute/state.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/plan/plan.h"

namespace weft::execute {

/// The state, and the arena that the plans share, one at a time.
class CpuMemory {
 public:
  explicit CpuMemory(const State& state) : state_(state) {}
  /// Once, before the first matrix().
  void allocate(std::int64_t arena_bytes) { arena_ = Buffer(arena_bytes); }
  cpu::Matrix matrix(const plan::Plan& plan, const graph::View& view) const {
    const graph::Tensor& tensor = plan.graph->tensor(view.tensor);
    const std::int64_t offset = plan.offset[view.tensor.index()];
    return matrix_of(*plan.graph, view,
                     graph::is_state(tensor.role) ? state_.data(tensor.name) : arena_.data() + offset);
  }

 private:
  const State& state_;
  Buffer arena_;
};

}  // namespace weft::execute
