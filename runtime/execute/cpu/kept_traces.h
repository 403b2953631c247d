// The traces of a plan's last steps: written in ticks while a step runs, read in nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/execute/tick_clock.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::execute {

/// Of one plan, whose runs are counted from 0. Nothing is allocated while steps run.
class KeptTraces {
 public:
  KeptTraces() = default;
  /// Room for the last `steps` of them; with 0 no time is taken.
  KeptTraces(const plan::Plan& plan, std::int64_t steps);

  void begin(std::int64_t run, std::int64_t step, const TickClock& clock);
  /// The step ended well.
  void end(const TickClock& clock);
  /// Where the times of the running step's tasks go, in ticks, by entry; null: none are taken.
  plan::TaskTime* times(std::size_t stream) const {
    return running_ == nullptr ? nullptr : running_->trace.times[stream].data();
  }

  /// Of the last of `runs`. Throws std::logic_error if there was none, or if it isn't there.
  const plan::StepTrace& last(std::int64_t runs);
  /// Oldest first.
  std::vector<plan::StepTrace> all(std::int64_t runs);

 private:
  struct Kept {
    plan::StepTrace trace;
    TickClock::Reading begin, end;
    bool in_ticks = false;
    bool complete = false;  // the step ended well

    const plan::StepTrace& in_nanoseconds();
  };

  std::vector<Kept> ring_;  // run r is at r mod size
  Kept* running_ = nullptr;
};

}  // namespace weft::execute
