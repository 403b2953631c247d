#include "runtime/execute/cpu/kept_traces.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <utility>

namespace weft::execute {

KeptTraces::KeptTraces(const plan::Plan& plan, std::int64_t steps) {
  Kept empty;
  for (const plan::StreamPlan& stream : plan.streams) empty.trace.times.emplace_back(stream.entries.size());
  kept_.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, steps)), empty);
}

void KeptTraces::begin(std::int64_t step, const TickClock& clock) {
  if (kept_.empty()) return;
  kept_.splice(kept_.end(), kept_, kept_.begin());
  running_ = &kept_.back();
  running_->begin = clock.read();
  running_->in_ticks = true;
  running_->complete = false;
  running_->trace.step = step;
  running_->trace.begin = running_->begin.ns;
}

void KeptTraces::end(const TickClock& clock) {
  if (running_ == nullptr) return;
  running_->end = clock.read();
  running_->trace.end = running_->end.ns;
  running_->complete = true;
}

const plan::StepTrace& KeptTraces::last() {
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), std::mem_fn(&Kept::complete));
  if (found == kept_.rend()) throw std::logic_error("no step of this plan was traced");
  return found->in_nanoseconds();
}

std::vector<plan::StepTrace> KeptTraces::all() {
  std::vector<plan::StepTrace> all;
  for (Kept& kept : kept_) {
    if (kept.complete) all.push_back(kept.in_nanoseconds());
  }
  return all;
}

const plan::StepTrace& KeptTraces::Kept::in_nanoseconds() {
  if (std::exchange(in_ticks, false)) {
    for (auto& stream : trace.times) {
      for (plan::TaskTime& time : stream) {
        time = {nanoseconds(time.begin, begin, end), nanoseconds(time.end, begin, end)};
      }
    }
  }
  return trace;
}

}  // namespace weft::execute
