#include "runtime/plan/trace.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace weft::plan {
void check_shape(const Plan& plan, const StepTrace& trace) {
  bool same = trace.times.size() == plan.streams.size();
  for (std::size_t i = 0; same && i < plan.streams.size(); ++i) {
    same = trace.times[i].size() == plan.streams[i].entries.size();
  }
  if (!same) throw std::logic_error(fmt::format("the trace of step {} doesn't belong to this plan", trace.step));
}

BusyTimes busy_times(std::vector<Intervals> streams, const std::vector<bool>& compute) {
  BusyTimes busy;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    busy.streams.push_back(merged(std::move(streams[i])));
    Intervals& kind = compute[i] ? busy.compute : busy.communication;
    kind.insert(kind.end(), busy.streams.back().begin(), busy.streams.back().end());
  }
  busy.compute = merged(std::move(busy.compute));
  busy.communication = merged(std::move(busy.communication));
  busy.exposed = difference(busy.communication, busy.compute);
  return busy;
}

BusyTimes busy_times(const Plan& plan, const StepTrace& trace) {
  check_shape(plan, trace);
  std::vector<Intervals> streams(plan.streams.size());
  std::vector<bool> compute;
  for (std::size_t i = 0; i < plan.streams.size(); ++i) {
    for (const TaskTime& time : trace.times[i]) streams[i].push_back({time.begin, time.end});
    compute.push_back(plan.streams[i].stream.compute);
  }
  return busy_times(std::move(streams), compute);
}

OverlapSummary summarize(const BusyTimes& busy, Interval step) {
  OverlapSummary summary;
  summary.step = step.end - step.begin;
  summary.compute = total_length(busy.compute);
  summary.communication = total_length(busy.communication);
  summary.exposed = total_length(busy.exposed);
  summary.overlapped = summary.communication - summary.exposed;
  return summary;
}

OverlapSummary summarize(const Plan& plan, const StepTrace& trace) {
  return summarize(busy_times(plan, trace), {trace.begin, trace.end});
}

}  // namespace weft::plan
