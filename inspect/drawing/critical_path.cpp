#include "inspect/drawing/critical_path.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weft::inspect {

std::vector<std::uint32_t> critical_path(const plan::Recording& recording, const plan::RecordedStep& step) {
  const std::size_t tasks = recording.tasks.size();
  if (tasks == 0) return {};
  constexpr std::uint32_t kNone = UINT32_MAX;
  // By task, the one with the latest end of those that it may have waited for. A dependency can't have ended after the
  // task began, but clocks are a microsecond apart and may say so: it counts as long as it began before the task.
  std::vector<std::uint32_t> before(tasks, kNone);
  const auto offer = [&](std::uint32_t from, std::uint32_t to) {
    if (std::pair(step.times[from].begin, from) >= std::pair(step.times[to].begin, to)) return;
    std::uint32_t& best = before[to];
    if (best == kNone || std::pair(step.times[from].end, from) > std::pair(step.times[best].end, best)) best = from;
  };
  for (const plan::RecordedEdge& edge : recording.edges) {
    if (edge.distance == 0) offer(edge.from, edge.to);
  }
  std::vector<std::uint32_t> by_begin(tasks);
  for (std::uint32_t i = 0; i < tasks; ++i) by_begin[i] = i;
  std::sort(by_begin.begin(), by_begin.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(recording.tasks[a].stream, step.times[a].begin, a) <
           std::tuple(recording.tasks[b].stream, step.times[b].begin, b);
  });
  for (std::size_t i = 1; i < tasks; ++i) {
    if (recording.tasks[by_begin[i - 1]].stream == recording.tasks[by_begin[i]].stream) {
      offer(by_begin[i - 1], by_begin[i]);
    }
  }
  std::uint32_t last = 0;
  for (std::uint32_t i = 1; i < tasks; ++i) {
    if (step.times[i].end > step.times[last].end) last = i;
  }
  std::vector<std::uint32_t> chain;
  for (std::uint32_t task = last; task != kNone; task = before[task]) chain.push_back(task);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace weft::inspect
