#include "runtime/execute/cpu/kept_traces.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace weft::execute {

KeptTraces::KeptTraces(const plan::Plan& plan, std::int64_t steps) {
  Kept empty;
  for (const plan::StreamPlan& stream : plan.streams) empty.trace.times.emplace_back(stream.entries.size());
  ring_.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, steps)), empty);
}

void KeptTraces::begin(std::int64_t run, std::int64_t step, const TickClock& clock) {
  running_ = nullptr;
  if (ring_.empty()) return;
  running_ = &ring_[static_cast<std::size_t>(run) % ring_.size()];
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

const plan::StepTrace& KeptTraces::last(std::int64_t runs) {
  if (runs == 0) throw std::logic_error("a plan that has not run has no trace");
  if (ring_.empty()) throw std::logic_error("an executor that keeps no steps has no trace");
  Kept& kept = ring_[static_cast<std::size_t>(runs - 1) % ring_.size()];
  if (!kept.complete) throw std::logic_error("the step that failed took the place of the last trace");
  return kept.in_nanoseconds();
}

std::vector<plan::StepTrace> KeptTraces::all(std::int64_t runs) {
  const auto size = static_cast<std::int64_t>(ring_.size());
  std::vector<plan::StepTrace> kept;
  for (std::int64_t run = std::max<std::int64_t>(0, runs - size); run < runs; ++run) {
    Kept& of_run = ring_[static_cast<std::size_t>(run % size)];
    if (of_run.complete) kept.push_back(of_run.in_nanoseconds());
  }
  return kept;
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
