#include "inspect/report/exposed_times.h"

#include <algorithm>

#include "base/intervals.h"

namespace weft::inspect {

std::vector<std::int64_t> exposed_times(const plan::Recording& recording, const plan::RecordedStep& step) {
  const Intervals exposed = plan::busy_times(recording, step).exposed;
  std::vector<std::int64_t> times(recording.tasks.size(), 0);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (recording.tasks[i].channel.empty()) continue;
    const plan::TaskTime& time = step.times[i];
    // Exposed intervals rise and don't touch, so the few that the task meets lie side by side.
    const auto first = std::ranges::upper_bound(exposed, time.begin, {}, &Interval::end);
    const auto last = std::ranges::lower_bound(exposed, time.end, {}, &Interval::begin);
    for (auto at = first; at < last; ++at) times[i] += std::min(at->end, time.end) - std::max(at->begin, time.begin);
  }
  return times;
}

}  // namespace weft::inspect
