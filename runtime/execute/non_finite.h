// Finds NaNs and infinities in the results of a task.
#pragma once

#include <mutex>
#include <optional>

#include "runtime/execute/executor.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {

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
