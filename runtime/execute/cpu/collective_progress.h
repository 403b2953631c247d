// Advances the collectives of a running step; any thread may do it between its tasks.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/execute/cpu/cpu_plan.h"
#include "runtime/execute/cpu/finite_check.h"
#include "runtime/execute/tick_clock.h"

namespace weft::execute {

class CollectiveProgress {
 public:
  /// Checks results with `check`, unless it is null.
  CollectiveProgress(const TickClock& clock, FiniteCheck* check)
      : clock_(clock), check_(check), interval_(clock.ticks_in(kInterval)) {}

  /// Advances every communication stream as far as possible without blocking; does nothing while another thread does
  /// so.
  void poll(CpuPlan& loaded);
  /// Has the poll interval passed since the last poll?
  bool due(std::int64_t now) const { return now - last_.load(std::memory_order_relaxed) >= interval_; }

 private:
  // The longest time between two polls while a compute thread works: the hook runs after every slice of a task, but
  // polls the network only once this time has passed.
  static constexpr std::int64_t kInterval = 100'000;  // ns

  void advance(CpuPlan& loaded, CpuStream& stream, plan::TaskTime* times);

  const TickClock& clock_;
  FiniteCheck* const check_;
  const std::int64_t interval_;  // ticks
  alignas(128) std::atomic_flag polling_ = ATOMIC_FLAG_INIT;
  std::atomic<std::int64_t> last_{0};  // ticks
};

}  // namespace weft::execute
