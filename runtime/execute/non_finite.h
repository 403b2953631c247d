// Finds NaNs and infinities in the results of a task.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/execute/executor.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {

/// A result of a task that has to be finite. Workspaces and integers don't.
struct CheckedResult {
  graph::View view;
  cpu::Matrix matrix;
  const std::int32_t* rows = nullptr;  // number of its rows that the task writes; null: all
};
std::vector<CheckedResult> checked_results(const PlanMemory& memory, const plan::Plan& plan, graph::TaskId id);

/// `element`: counted row-major within the view that the task wrote.
NonFiniteResult non_finite_result(const plan::Plan& plan, graph::TaskId id, const graph::View& view,
                                  std::int64_t element);

/// Looks for NaN and infinity in the tensors that tasks wrote, and keeps the first such task in program order. Checks
/// one step at a time; any number of threads may call look_at().
class FiniteCheck {
 public:
  explicit FiniteCheck(const PlanMemory& memory) : memory_(memory) {}
  void begin_step() { first_.reset(); }
  /// Call it before the task counts as completed, as no other task overwrites its results until then. Skips workspaces.
  void look_at(const plan::Plan& plan, graph::TaskId id);
  /// Between steps.
  const std::optional<NonFiniteResult>& first() const { return first_; }

 private:
  const PlanMemory& memory_;
  std::mutex mutex_;
  std::optional<NonFiniteResult> first_;
};

}  // namespace weft::execute
