#include "inspect/import/step_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kStepsAhead = 4;              // a host that is further ahead of its device would be a surprise
constexpr std::int64_t kHeldUpAtMost = 5'000;        // work that waited begins this soon after the other's end
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

/// A stream runs its work one after the other, so what the record says beyond that is cut: of two pieces that overlap,
/// the earlier one ends when the later one begins, and the last one ends when all have ended.
void cut_overlaps(StepTimeline& out) {
  const auto keep = [&out] {
    if (out.recorded.empty()) out.recorded = out.ops;
  };
  for (const TimelineStream& stream : out.streams) {
    std::int64_t end = INT64_MIN;  // of all so far
    for (std::size_t i = 0; i < stream.ops.size(); ++i) {
      DeviceOp& op = out.ops[stream.ops[i]];
      end = std::max(end, op.end);
      const std::int64_t next = i + 1 < stream.ops.size() ? out.ops[stream.ops[i + 1]].begin : INT64_MAX;
      const std::int64_t cut = end - kRounding > next ? std::max(op.begin, next) : std::max(op.end, end);
      if (cut == op.end) continue;
      keep();
      op.end = cut;
    }
  }
}

/// A quarter of the launches that found everything idle are faster: what takes longer had something else to wait for.
void measure_launch_delays(const DeviceTrace& trace, StepTimeline& out) {
  std::vector<std::int64_t> ends;
  for (const DeviceOp& op : out.ops) ends.push_back(op.end);
  std::ranges::sort(ends);
  std::array<std::vector<std::int64_t>, 3> delays;
  for (std::uint32_t i = 0; i < out.ops.size(); ++i) {
    if (out.call_of[i] == kNone) continue;
    const DeviceOp& op = out.ops[i];
    const std::int64_t called = trace.calls[out.call_of[i]].begin;
    const std::uint32_t place = out.place[i];
    const bool idle = place == 0 || out.ops[out.streams[out.stream_of[i]].ops[place - 1]].end < called;
    // Work that began just when other work ended waited for it.
    const auto after = std::ranges::upper_bound(ends, op.begin);
    const bool held_up = after != ends.begin() && *(after - 1) > called && *(after - 1) + kHeldUpAtMost > op.begin;
    const std::int64_t delay = op.begin - called;
    if (idle && !held_up && delay >= 0) delays[static_cast<std::size_t>(op.work)].push_back(delay);
  }
  std::vector<std::int64_t> all;
  for (const auto& some : delays) all.insert(all.end(), some.begin(), some.end());
  for (std::size_t work = 0; work < delays.size(); ++work) {
    std::vector<std::int64_t>& some = delays[work].size() >= 5 ? delays[work] : all;
    if (some.empty()) continue;
    const auto quarter = some.begin() + static_cast<std::ptrdiff_t>((some.size() - 1) / 4);
    std::ranges::nth_element(some, quarter);
    out.launch_delay[work] = *quarter;
  }
}

std::int64_t thread_of_most_launches(const DeviceTrace& trace, const StepTimeline& timeline) {
  std::map<std::int64_t, std::size_t> launches;
  for (std::size_t i = 0; i < trace.calls.size(); ++i) launches[trace.calls[i].thread] += timeline.launches[i].size();
  const auto most = std::ranges::max_element(launches, {}, [](const auto& entry) { return entry.second; });
  return most == launches.end() ? 0 : most->first;
}

void set_bounds(const DeviceTrace& trace, const std::optional<MarkedStep>& step, StepTimeline& out) {
  const bool marked = step && step->is_marked;
  out.main_thread = marked ? step->thread : thread_of_most_launches(trace, out);
  if (out.behind > 0) return;
  std::int64_t first = out.ops.front().begin, last = out.end;
  for (std::size_t i = 0; i < trace.calls.size() && !marked; ++i) {
    if (out.launches[i].empty() && !step) continue;  // of a range, all calls count
    first = std::min(first, trace.calls[i].begin);
    last = std::max(last, trace.calls[i].end);
  }
  out.origin = marked ? step->window.begin : first;
  out.end = marked ? std::max(last, step->window.end) : last;
}

/// A host that runs ahead begins a step while its device still works on the last one, and streams may run ahead of each
/// other. Then the step is a period of the stream that computes most. What another stream did before that, it does
/// again for the next step within this one's length, and what it does later, it did for the last step.
class PeriodSearch {
 public:
  PeriodSearch(const MarkedStep& step, const std::map<StepOps::Stream, std::int64_t>& earlier, StepTimeline& out)
      : step_(step), earlier_(earlier), out_(out) {
    for (const DeviceOp& op : out.ops) {
      Span& span = spans_.try_emplace({op.device, op.stream}, Span{op.begin, op.end}).first->second;
      span.last = std::max(span.last, op.end);
      if (op.collective == kNoCollective) span.computing += op.end - op.begin;
    }
  }

  void run() {
    const auto main = std::ranges::max_element(spans_, {}, [](const auto& each) { return each.second.computing; });
    const std::int64_t begin =
        step_.is_marked ? step_.window.begin : std::max(step_.window.begin, out_.ops.front().begin);
    const auto before = earlier_.find(main->first);
    const bool behind = before != earlier_.end() && before->second > begin && before->second < main->second.last;
    if (!behind && !step_.is_marked) return;
    out_.origin = behind ? before->second : begin;
    out_.behind = out_.origin - begin;
    std::int64_t end = main->second.last;
    if (step_.is_marked) end = std::max(end, step_.window.end);
    for (const auto& [stream, span] : spans_) {
      if (!lags(stream, span, end)) end = std::max(end, span.last);
    }
    out_.end = end;
    move_work();
  }

 private:
  struct Span {
    std::int64_t first = 0, last = 0, computing = 0;
  };

  /// Whether a period holds all of a stream's work, wherever it begins.
  bool fits(const Span& span, std::int64_t end) const {
    return span.last - span.first <= end - out_.origin + kRounding;
  }
  /// Whether a stream that works after the step's end did so after the last one, too.
  bool lags(const StepOps::Stream& stream, const Span& span, std::int64_t end) const {
    const auto before = earlier_.find(stream);
    return span.last > end && before != earlier_.end() && before->second > out_.origin && fits(span, end);
  }

  void move_work() {
    const std::int64_t period = out_.end - out_.origin;
    std::vector<DeviceOp> moved = out_.ops;
    bool changed = false;
    for (DeviceOp& op : moved) {
      const bool can_move = fits(spans_.at({op.device, op.stream}), out_.end);
      const std::int64_t by = !can_move ? 0 : op.end <= out_.origin ? period : op.begin >= out_.end ? -period : 0;
      const std::int64_t begin = std::clamp(op.begin + by, out_.origin, out_.end);
      const std::int64_t end = std::clamp(op.end + by, begin, out_.end);
      changed |= begin != op.begin || end != op.end;
      op.begin = begin;
      op.end = end;
    }
    if (!changed) return;
    std::ranges::stable_sort(moved, {}, &DeviceOp::begin);
    out_.recorded = std::exchange(out_.ops, std::move(moved));
  }

  const MarkedStep& step_;
  const std::map<StepOps::Stream, std::int64_t>& earlier_;
  StepTimeline& out_;
  std::map<StepOps::Stream, Span> spans_;
};

[[noreturn]] void refuse_empty(const std::string& file, const std::optional<MarkedStep>& step) {
  if (step && !step->is_marked) {
    throw UserError(fmt::format("'{}' has no work of a device that was launched in this range", file),
                    "milliseconds since the file's first mark or work of a device", "another --from-ms or --to-ms");
  }
  throw UserError(step ? fmt::format("step {} of '{}' has no work of a device", step->number, file)
                       : fmt::format("'{}' has no work of a device", file),
                  "kernels, copies or collectives of a GPU, or operators of CPU threads",
                  step ? "choose another step with --step, or record with ProfilerActivity.CUDA or CPU"
                       : "record with ProfilerActivity.CUDA or CPU");
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
        std::int64_t& end = out.earlier_ends.try_emplace({op.device, op.stream}, op.end).first->second;
        end = std::max(end, op.end);
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
  out.end = std::ranges::max_element(out.ops, {}, &DeviceOp::end)->end;
  if (step && step->is_marked) out.marked = step->window.end - step->window.begin;
  if (step) PeriodSearch(*step, chosen.earlier_ends, out).run();
  out.without_launch = step ? chosen.without_launch : 0;
  sort_into_streams(out);
  cut_overlaps(out);
  join_launches(trace, out);
  if (!step) out.without_launch = std::ranges::count(out.call_of, kNone);
  if (trace.cpu_only) out.without_launch = 0;
  measure_launch_delays(trace, out);
  set_bounds(trace, step, out);
  if (trace.made_up_host) {  // and so are the marks of steps
    out.origin = std::ranges::min_element(out.ops, {}, &DeviceOp::begin)->begin;
    out.end = std::ranges::max_element(out.ops, {}, &DeviceOp::end)->end;
    out.behind = 0;
  }
  return out;
}

}  // namespace weft::inspect
