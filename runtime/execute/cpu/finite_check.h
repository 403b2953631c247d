// Looks for NaN and infinity in what tasks wrote, and keeps the first task in program order.
#pragma once

#include <mutex>
#include <optional>

#include "runtime/execute/cpu/cpu_memory.h"
#include "runtime/execute/executor.h"

namespace weft::execute {

/// Of one step at a time; any number of threads may look.
class FiniteCheck {
 public:
  explicit FiniteCheck(const CpuMemory& memory) : memory_(memory) {}
  void begin_step() { first_.reset(); }
  /// Before the task counts as completed: until then nobody overwrites what it wrote. Workspaces are left out.
  void look_at(const plan::Plan& plan, graph::TaskId id);
  /// Between steps.
  const std::optional<NonFiniteResult>& first() const { return first_; }

 private:
  const CpuMemory& memory_;
  std::mutex mutex_;
  std::optional<NonFiniteResult> first_;
};

}  // namespace weft::execute
