// The traces of a plan's last steps: written in ticks while a step runs, read in nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "runtime/execute/tick_clock.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::execute {

/// The traces of one plan. Allocates nothing while steps run.
class KeptTraces {
 public:
  KeptTraces() = default;
  /// Room for the last `steps` traces; 0: no tracing.
  KeptTraces(const plan::Plan& plan, std::int64_t steps);

  void begin(std::int64_t step, const TickClock& clock);
  /// Call it when the step ended without an error.
  void end(const TickClock& clock);
  /// The array for the times of the running step's tasks, in ticks, by entry; null: no tracing.
  plan::TaskTime* times(std::size_t stream) const {
    return running_ == nullptr ? nullptr : running_->trace.times[stream].data();
  }

  /// Of the last step that ended well. Throws std::logic_error if none is kept.
  const plan::StepTrace& last();
  /// Oldest first.
  std::vector<plan::StepTrace> all();

 private:
  struct Kept {
    plan::StepTrace trace;
    TickClock::Reading begin, end;
    bool in_ticks = false;
    bool complete = false;  // the step ended well

    const plan::StepTrace& in_nanoseconds();
  };

  std::list<Kept> kept_;  // the running or last step at the end
  Kept* running_ = nullptr;
};

}  // namespace weft::execute
