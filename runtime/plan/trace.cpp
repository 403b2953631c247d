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

std::vector<RecordedStream> recorded_streams(const Plan& plan) {
  std::vector<RecordedStream> streams;
  for (const auto& [stream, entries] : plan.streams)
    streams.push_back({stream.name, stream.compute, !stream.compute && plan.graph->is_local(stream.channel)});
  return streams;
}

BusyTimes busy_times(std::vector<Intervals> intervals, std::span<const RecordedStream> streams) {
  BusyTimes busy;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    busy.streams.push_back(merged(std::move(intervals[i])));
    if (streams[i].local) continue;
    Intervals& kind = streams[i].compute ? busy.compute : busy.communication;
    kind.insert(kind.end(), busy.streams.back().begin(), busy.streams.back().end());
  }
  busy.compute = merged(std::move(busy.compute));
  busy.communication = merged(std::move(busy.communication));
  busy.exposed = difference(busy.communication, busy.compute);
  return busy;
}

BusyTimes busy_times(const Plan& plan, const StepTrace& trace) {
  check_shape(plan, trace);
  return busy_times(trace.times, recorded_streams(plan));
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
