// Advances the collectives of a running step, from whichever thread has a moment.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/execute/cpu/cpu_plan.h"
#include "runtime/execute/cpu/finite_check.h"
#include "runtime/execute/tick_clock.h"

namespace weft::execute {

class CollectiveProgress {
 public:
  /// Results are looked at with `check`, if it isn't null.
  CollectiveProgress(const TickClock& clock, FiniteCheck* check)
      : clock_(clock), check_(check), interval_(clock.ticks_in(kInterval)) {}

  /// Moves every communication stream as far as it goes without blocking; does nothing while another thread does.
  void poll(CpuPlan& loaded);
  /// Has it been long enough since the last time?
  bool due(std::int64_t now) const { return now - last_.load(std::memory_order_relaxed) >= interval_; }

 private:
  // A collective advances at least so often while a compute thread works: within a long task the hook is called after
  // every slice, but looks at the network only when this much time has passed.
  static constexpr std::int64_t kInterval = 100'000;  // ns

  void advance(CpuPlan& loaded, CpuStream& stream, plan::TaskTime* times);

  const TickClock& clock_;
  FiniteCheck* const check_;
  const std::int64_t interval_;  // ticks
  alignas(128) std::atomic_flag polling_ = ATOMIC_FLAG_INIT;
  std::atomic<std::int64_t> last_{0};  // ticks
};

}  // namespace weft::execute
