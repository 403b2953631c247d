// Rules that viewers of traces have for slices, arrows, counters and groups, whatever the format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "graph/grid.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// A row of a viewer, which is a stack: slices that cross lose their lengths, empty ones vanish.
class ViewerRow {
 public:
  /// After the slices that the row shows already, and 1 ns long at least.
  plan::TaskTime place(const plan::TaskTime& time) {
    const std::int64_t begin = std::max(time.begin, free_from_);
    free_from_ = std::max(time.end, begin + 1);
    return {begin, free_from_};
  }

 private:
  std::int64_t free_from_ = INT64_MIN;
};

/// The rows of a rank's streams.
class ViewerRows {
 public:
  explicit ViewerRows(const plan::Recording& recording) : recording_(recording), rows_(recording.streams.size()) {}

  /// The times of the next step's tasks, from `origin` on.
  std::vector<plan::TaskTime> place(const plan::RecordedStep& step, std::int64_t origin) {
    if (last_ && step.step <= *last_) throw std::logic_error("a trace's steps don't rise");
    last_ = step.step;
    std::vector<plan::TaskTime> times = step.times;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (times[i].begin < step.begin) throw std::logic_error("a traced time lies before its step's begin");
      times[i] = rows_[recording_.tasks[i].stream].place({times[i].begin - origin, times[i].end - origin});
    }
    return times;
  }

 private:
  const plan::Recording& recording_;
  std::vector<ViewerRow> rows_;
  std::optional<std::int64_t> last_;  // step
};

/// Where an arrow to the begin of a placed slice leaves the slice `from`: inside of it and not after its head, else the
/// viewer drops it. None: it would go back in time.
inline std::optional<std::int64_t> arrow_tail(const plan::TaskTime& from, const plan::TaskTime& to) {
  const std::int64_t at = std::min(from.end - 1, to.begin);
  return at >= from.begin ? std::optional(at) : std::nullopt;
}

/// The points of a counter at which it changes.
inline std::vector<plan::MemoryPoint> changes_of(std::vector<plan::MemoryPoint> curve) {
  const auto same = [](const plan::MemoryPoint& a, const plan::MemoryPoint& b) { return a.bytes == b.bytes; };
  curve.erase(std::unique(curve.begin(), curve.end(), same), curve.end());
  return curve;
}

/// The first task of each channel that has a name.
inline std::map<std::string, const plan::RecordedTask*> tasks_by_channel(const plan::Recording& recording) {
  std::map<std::string, const plan::RecordedTask*> tasks;
  for (const plan::RecordedTask& task : recording.tasks) {
    if (!task.channel.empty()) tasks.emplace(task.channel, &task);
  }
  return tasks;
}

/// The ranks that a rank joins on a channel, where the grid is known and arranges it.
inline std::optional<std::vector<std::int64_t>> group_of(const plan::Recording& recording, std::string_view channel,
                                                         int rank) {
  const std::optional<graph::Channel> found = graph::find_channel(channel);
  if (!recording.grid || !found || graph::is_own(*found) || rank >= recording.grid->ranks()) return std::nullopt;
  return graph::group_ranks(*recording.grid, *found, rank);
}

}  // namespace weft::inspect
