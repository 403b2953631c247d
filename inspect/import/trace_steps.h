// Which part of a recording is one step: by the marks of the profiler, by its number, or all of it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "inspect/import/device_trace.h"

namespace weft::inspect {

/// Or a range of time that a person named.
struct MarkedStep {
  std::int64_t number = 0;
  bool is_marked = true;  // else a range, without number and thread
  TimeWindow window;
  std::int64_t thread = 0;  // whose mark it is
  /// Work of the device that begins later belongs to other steps: a host runs ahead by a few steps at most, and nothing
  /// comes after the last mark.
  std::int64_t latest_work = std::numeric_limits<std::int64_t>::max();
};

/// By begin, and sets up to when work may belong to each.
void sort_steps(std::vector<MarkedStep>& steps);

/// What a quick look at a file finds: all that has to be known before its events are read.
struct TraceOutline {
  std::string file = {};
  std::int64_t rank = -1, world = 0;
  std::vector<ProcessGroup> groups = {};
  std::vector<MarkedStep> steps = {};  // by begin
  std::int64_t events = 0, device_ops = 0;
  std::int64_t begin = 0;  // ranges are counted from here
};

struct StepChoice {
  std::optional<std::int64_t> number = {};  // of the step
  bool whole = false;                       // all that the file holds, as one step
  std::optional<TimeWindow> range = {};     // of launches, after the outline's begin
};

/// Without a choice: the last step that another one follows, since work of the last one may be cut off; the only step
/// if there is one; everything if no step is marked. Throws UserError if the step isn't there.
std::optional<MarkedStep> choose_step(const TraceOutline& outline, const StepChoice& choice);

/// Work of the device that was launched in a window, and when work of earlier steps was done.
struct StepOps {
  std::vector<DeviceOp> ops;  // by begin
  std::optional<std::int64_t> earlier_end = {};
  std::int64_t without_launch = 0;  // taken by their own time
};
StepOps ops_of_step(const DeviceTrace& trace, const TimeWindow& window);

}  // namespace weft::inspect
