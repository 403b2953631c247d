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

StreamUse use_of(bool compute, bool local) {
  if (local) return StreamUse::local;
  return compute ? StreamUse::compute : StreamUse::communication;
}

BusyTimes busy_times(std::vector<Intervals> streams, std::span<const StreamUse> uses) {
  BusyTimes busy;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    busy.streams.push_back(merged(std::move(streams[i])));
    if (uses[i] == StreamUse::local) continue;
    Intervals& kind = uses[i] == StreamUse::compute ? busy.compute : busy.communication;
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
  std::vector<StreamUse> uses;
  for (std::size_t i = 0; i < plan.streams.size(); ++i) {
    for (const TaskTime& time : trace.times[i]) streams[i].push_back({time.begin, time.end});
    const Stream& stream = plan.streams[i].stream;
    uses.push_back(use_of(stream.compute, !stream.compute && plan.graph->is_local(stream.channel)));
  }
  return busy_times(std::move(streams), uses);
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
