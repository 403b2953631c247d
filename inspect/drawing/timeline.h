// Recorded steps as a picture: in a terminal, and as SVG or PNG.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inspect/drawing/picture.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// One row a stream, `columns` characters wide in all (at least 40), then the memory and a line with the sums. A
/// character stands for what the stream did in that time: # computing, = communicating beside a computation,
/// ! communicating while nothing computes (exposed), + busy for less than half of it, . idle. Memory: tenths of its
/// peak, rounded up.
///
///   compute0 |######+.########|  88 %
///   data     |....==!!==+.....|  38 %
///   memory   |1234678999998421|  12.3 MiB
std::string timeline_text(const plan::Recording& recording, const plan::RecordedStep& step, int columns = 100);

/// The chain of tasks that a step's length comes from: indices into Recording::tasks, first to last. The last one ended
/// last. Before each task stands the one that it started after: of the tasks that it waits for and of the tasks before
/// it on its stream, the task that ended last. The work of other ranks isn't known: a collective that waited for a peer
/// looks long instead.
std::vector<std::uint32_t> critical_path(const plan::Recording& recording, const plan::RecordedStep& step);

/// A recording among others in one picture: the last step of each of its ranks.
struct TimelinePart {
  std::string title = {};
  const plan::Recording* recording = nullptr;
  double bound_ns = 0;  // no policy is faster on this graph; 0: not known
};

/// Parts below each other on one time axis, each from its step's begin (the clocks of its ranks must agree). One row a
/// stream and rank: bars in the colours of inspect/drawing/colors.h, with as much of a task's name as has room
/// (task_label.h) and the whole name as a tooltip; exposed communication as red bars under its row; the critical path
/// (critical_path()) as a thin dark line above the bars; on the right how busy each stream was. Below each rank its
/// live scratch bytes with their peak. The bound is an upright line. Tasks narrower than a pixel are drawn as one bar
/// that says which they are, so that the picture doesn't grow with the number of tasks. Equal input gives equal
/// bytes.
Picture timeline_picture(std::span<const TimelinePart> parts);

}  // namespace weft::inspect
