// A task's accesses as the arguments of a kernel's call, by name, in the shapes of the operation's schema; the same for
// every device.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/operation.h"
#include "kernels/cpu/matrix.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/state.h"
#include "runtime/plan/plan.h"

namespace weft::execute {

/// A view of a tensor whose memory begins at `begin`.
cpu::Matrix matrix_of(const graph::Graph& graph, const graph::View& view, std::byte* begin);

/// Where a plan's tensors are: the state, at `of_state`, and the arena that plans share, one at a time.
struct PlanMemory {
  const State* state = nullptr;
  std::byte* of_state = nullptr;
  std::byte* arena = nullptr;

  cpu::Matrix matrix(const plan::Plan& plan, const graph::View& view) const;
  /// Of a task's accesses.
  std::vector<cpu::Matrix> arguments(const plan::Plan& plan, const graph::Task& task) const;
};

/// The slot of an argument that the task doesn't have.
inline constexpr cpu::Matrix kAbsentArgument{nullptr, -1, 0, 0, DType::f32};

/// An operation with its arguments in slots: one for each row of its schema, in that order, whether the task has the
/// argument or not. So a name is a place that the compiler knows.
///
///   const Call<Gemm> product(operation, slots);
///   product["C"].dtype
///   product.find("bias")                          // null: the product has none
///   product->m
template <class Op>
class Call {
 public:
  Call(const Op& operation, std::span<const cpu::Matrix> slots) : operation_(operation), slots_(slots) {}

  /// Of an argument that the task has.
  const cpu::Matrix& operator[](graph::ArgumentName<Op> argument) const { return slots_[argument.index()]; }
  const cpu::Matrix* find(graph::ArgumentName<Op> argument) const {
    const cpu::Matrix& slot = slots_[argument.index()];
    return slot.rows == kAbsentArgument.rows ? nullptr : &slot;
  }
  const Op& operator*() const { return operation_; }
  const Op* operator->() const { return &operation_; }
  std::span<const cpu::Matrix> slots() const { return slots_; }

 private:
  const Op& operation_;
  std::span<const cpu::Matrix> slots_;
};

/// The slots of a task: `arguments` are its accesses in the order of the operation's schema; a contiguous one may come
/// in any shape of the right size. Throws std::logic_error if their number or sizes don't fit the operation, and for
/// collectives, which communicators run.
std::vector<cpu::Matrix> fitted_arguments(const graph::Operation& operation, std::span<const cpu::Matrix> arguments);

/// A collective's task as a communicator takes it. A message between two stages is a broadcast by its sender in their
/// group of two, in which this rank is `group_rank`. Throws std::logic_error as fitted_arguments() does, and for other
/// operations.
comm::CollectiveCall collective_call(const graph::Task& task, std::span<const cpu::Matrix> arguments,
                                     int group_rank = 0);

/// Throws std::logic_error.
[[noreturn]] void refuse_collective();
[[noreturn]] void refuse_opaque(const graph::Opaque& task);

}  // namespace weft::execute
