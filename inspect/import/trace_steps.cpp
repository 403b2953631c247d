#include "inspect/import/trace_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kStepsAhead = 4;              // a host that is further ahead of its device would be a surprise
constexpr std::int64_t kLeastAhead = 1'000'000'000;  // of a range, which may be shorter than a step

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

}  // namespace

void sort_steps(std::vector<MarkedStep>& steps) {
  std::ranges::sort(steps, {}, [](const MarkedStep& step) { return step.window.begin; });
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const TimeWindow& window = steps[i].window;
    const std::int64_t length = std::min(window.end - window.begin, INT64_MAX / kStepsAhead);
    const std::int64_t ahead = kStepsAhead * length;
    // Times of a damaged file may be negative or close to the greatest number.
    steps[i].latest_work = window.end + (window.end > 0 ? std::min(ahead, INT64_MAX - window.end) : ahead);
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

}  // namespace weft::inspect
