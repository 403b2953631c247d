#include "inspect/import/step_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "base/error.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kStepsAhead = 4;              // a host that is further ahead of its device would be a surprise
constexpr std::int64_t kLeastAhead = 1'000'000'000;  // of a range, which may be shorter than a step

/// Times of a damaged file may be negative or close to the greatest number.
std::int64_t later(std::int64_t time, std::int64_t by) {
  return time > 0 && by > INT64_MAX - time ? INT64_MAX : time + by;
}

MarkedStep ranged_step(std::int64_t begin, const TimeWindow& range) {
  MarkedStep step;
  step.number = -1;
  step.is_marked = false;
  // From the first event on includes launches, which the outline doesn't know and which may come before it.
  step.window = {range.begin > 0 ? later(begin, range.begin) : INT64_MIN / 4, later(begin, range.end)};
  const std::int64_t length = std::min(range.end - range.begin, INT64_MAX / kStepsAhead);
  step.latest_work = later(step.window.end, std::max(kStepsAhead * length, kLeastAhead));
  return step;
}

void sort_into_streams(StepTimeline& out) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::uint32_t>> by_stream;
  for (std::uint32_t i = 0; i < out.ops.size(); ++i) by_stream[{out.ops[i].device, out.ops[i].stream}].push_back(i);
  out.place.resize(out.ops.size());
  out.stream_of.resize(out.ops.size());
  for (auto& [key, ops] : by_stream) {
    TimelineStream stream{key.first, key.second, std::move(ops), {}};
    for (std::uint32_t place = 0; place < stream.ops.size(); ++place) {
      out.place[stream.ops[place]] = place;
      out.stream_of[stream.ops[place]] = static_cast<std::uint32_t>(out.streams.size());
    }
    out.streams.push_back(std::move(stream));
  }
}

void join_launches(const DeviceTrace& trace, StepTimeline& out) {
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    if (trace.calls[i].correlation == kNoCorrelation) continue;
    // A call of the runtime may hold one of the driver with the same correlation: the outer one comes first.
    out.calls.emplace(trace.calls[i].correlation, i);
  }
  out.call_of.resize(out.ops.size());
  out.launches.resize(trace.calls.size());
  for (std::uint32_t i = 0; i < out.ops.size(); ++i) {
    out.call_of[i] = out.find_call(out.ops[i].correlation);
    if (out.call_of[i] != kNone) out.launches[out.call_of[i]].push_back(i);
  }
  for (TimelineStream& stream : out.streams) {
    std::int64_t latest = INT64_MIN;
    for (const std::uint32_t op : stream.ops) {
      const std::uint32_t call = out.call_of[op];
      latest = std::max(latest, call == kNone ? out.ops[op].begin : trace.calls[call].begin);
      stream.launched.push_back(latest);
    }
  }
}

/// The median of the delays of launches that found their stream idle.
void measure_launch_delays(const DeviceTrace& trace, StepTimeline& out) {
  std::array<std::vector<std::int64_t>, 3> delays;
  for (std::uint32_t i = 0; i < out.ops.size(); ++i) {
    if (out.call_of[i] == kNone) continue;
    const std::int64_t called = trace.calls[out.call_of[i]].begin;
    const std::uint32_t place = out.place[i];
    const bool idle = place == 0 || out.ops[out.streams[out.stream_of[i]].ops[place - 1]].end < called;
    const std::int64_t delay = out.ops[i].begin - called;
    if (idle && delay >= 0) delays[static_cast<std::size_t>(out.ops[i].work)].push_back(delay);
  }
  std::vector<std::int64_t> all;
  for (const auto& some : delays) all.insert(all.end(), some.begin(), some.end());
  for (std::size_t work = 0; work < delays.size(); ++work) {
    std::vector<std::int64_t>& some = delays[work].size() >= 5 ? delays[work] : all;
    if (some.empty()) continue;
    const auto middle = some.begin() + static_cast<std::ptrdiff_t>((some.size() - 1) / 2);
    std::ranges::nth_element(some, middle);
    out.launch_delay[work] = *middle;
  }
}

std::int64_t thread_of_most_launches(const DeviceTrace& trace, const StepTimeline& timeline) {
  std::map<std::int64_t, std::size_t> launches;
  for (std::size_t i = 0; i < trace.calls.size(); ++i) launches[trace.calls[i].thread] += timeline.launches[i].size();
  const auto most = std::ranges::max_element(launches, {}, [](const auto& entry) { return entry.second; });
  return most == launches.end() ? 0 : most->first;
}

void set_bounds(const DeviceTrace& trace, const std::optional<MarkedStep>& step, std::optional<std::int64_t> earlier,
                StepTimeline& out) {
  const bool marked = step && step->is_marked;
  out.main_thread = marked ? step->thread : thread_of_most_launches(trace, out);
  std::int64_t first = out.ops.front().begin, last = INT64_MIN;
  for (const DeviceOp& op : out.ops) last = std::max(last, op.end);
  for (std::size_t i = 0; i < trace.calls.size() && !marked; ++i) {
    if (out.launches[i].empty() && !step) continue;  // of a range, all calls count
    first = std::min(first, trace.calls[i].begin);
    last = std::max(last, trace.calls[i].end);
  }
  out.origin = marked ? step->window.begin : first;
  out.end = marked ? std::max(last, step->window.end) : last;
  // A host that runs ahead begins a step while its device still works on the last one. The step is counted from then
  // on.
  if (step && earlier && *earlier > out.origin) {
    const std::int64_t origin = std::min(*earlier, out.ops.front().begin);
    out.behind = std::max<std::int64_t>(0, origin - out.origin);
    out.origin += out.behind;
  }
}

[[noreturn]] void refuse_empty(const std::string& file, const std::optional<MarkedStep>& step) {
  if (step && !step->is_marked) {
    throw UserError(fmt::format("'{}' has no work of a device that was launched in this range", file),
                    "milliseconds since the file's first mark or work of a device", "another --from-ms or --to-ms");
  }
  throw UserError(step ? fmt::format("step {} of '{}' has no work of a device", step->number, file)
                       : fmt::format("'{}' has no work of a device", file),
                  "kernels, copies or collectives of a GPU",
                  "record with ProfilerActivity.CUDA, or choose another step with --step");
}

}  // namespace

void sort_steps(std::vector<MarkedStep>& steps) {
  std::ranges::sort(steps, {}, [](const MarkedStep& step) { return step.window.begin; });
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const TimeWindow& window = steps[i].window;
    const std::int64_t length = std::min(window.end - window.begin, INT64_MAX / kStepsAhead);
    steps[i].latest_work = later(window.end, kStepsAhead * length);
  }
}

std::optional<MarkedStep> choose_step(const TraceOutline& outline, const StepChoice& choice) {
  const std::vector<MarkedStep>& steps = outline.steps;
  if (choice.whole) return std::nullopt;
  if (choice.range) return ranged_step(outline.begin, *choice.range);
  if (!choice.number) {
    if (steps.empty()) return std::nullopt;
    return steps.size() == 1 ? steps.back() : steps[steps.size() - 2];
  }
  const auto found = std::ranges::find(steps, *choice.number, &MarkedStep::number);
  if (found != steps.end()) return *found;
  if (steps.empty()) {
    throw UserError(fmt::format("'{}' marks no steps, so there is no step {}", outline.file, *choice.number),
                    "marks named ProfilerStep#N", "leave --step out: the whole file is one step then");
  }
  std::vector<std::string> known;
  for (const MarkedStep& step : steps) known.push_back(std::to_string(step.number));
  throw UserError(fmt::format("'{}' has no step {}", outline.file, *choice.number), "one of " + join(known),
                  "--step with one of these");
}

StepOps ops_of_step(const DeviceTrace& trace, const TimeWindow& window) {
  StepOps out;
  std::unordered_set<std::int64_t> launched;
  std::int64_t least = INT64_MAX, most = INT64_MIN;
  for (const HostCall& call : trace.calls) {
    if (call.correlation == kNoCorrelation || !window.holds(call.begin)) continue;
    launched.insert(call.correlation);
    least = std::min(least, call.correlation);
    most = std::max(most, call.correlation);
  }
  for (const DeviceOp& op : trace.ops) {
    bool ours = launched.contains(op.correlation);
    if (!ours) {
      // Correlations rise with time, so a launch that isn't in the window lies on a known side of it.
      const bool known = op.correlation != kNoCorrelation && least <= most;
      if (known && op.correlation < least) {
        out.earlier_end = std::max(out.earlier_end.value_or(INT64_MIN), op.end);
        continue;
      }
      ours = window.holds(op.begin) && !(known && op.correlation > most);
      out.without_launch += ours ? 1 : 0;
    }
    if (ours) out.ops.push_back(op);
  }
  return out;
}

std::uint32_t StepTimeline::find_stream(std::int32_t device, std::int32_t stream) const {
  const auto found = std::ranges::find(streams, std::pair(device, stream),
                                       [](const TimelineStream& each) { return std::pair(each.device, each.stream); });
  return found == streams.end() ? kNone : static_cast<std::uint32_t>(found - streams.begin());
}

std::uint32_t StepTimeline::last_launched(std::uint32_t stream, std::int64_t before) const {
  const std::vector<std::int64_t>& launched = streams[stream].launched;
  const auto after = std::ranges::lower_bound(launched, before);
  return after == launched.begin() ? kNone
                                   : streams[stream].ops[static_cast<std::size_t>(after - launched.begin()) - 1];
}

std::uint32_t StepTimeline::first_launched(std::uint32_t stream, std::int64_t from) const {
  const std::vector<std::int64_t>& launched = streams[stream].launched;
  const auto at = std::ranges::lower_bound(launched, from);
  return at == launched.end() ? kNone : streams[stream].ops[static_cast<std::size_t>(at - launched.begin())];
}

StepTimeline make_timeline(const DeviceTrace& trace, const std::optional<MarkedStep>& step) {
  StepOps chosen = ops_of_step(trace, step ? step->window : TimeWindow());
  if (chosen.ops.empty()) refuse_empty(trace.file, step);
  StepTimeline out;
  out.ops = std::move(chosen.ops);
  out.without_launch = step ? chosen.without_launch : 0;
  sort_into_streams(out);
  join_launches(trace, out);
  if (!step) out.without_launch = std::ranges::count(out.call_of, kNone);
  measure_launch_delays(trace, out);
  set_bounds(trace, step, chosen.earlier_end, out);
  return out;
}

}  // namespace weft::inspect
