// Traces: begin and end of every task on every stream of one rank, measured or simulated, and measures of overlap.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/intervals.h"
#include "runtime/plan/plan.h"

namespace weft::plan {

/// Times are nanoseconds of std::chrono::steady_clock. The `begin` of a collective is its start, with all inputs ready;
/// its `end` is when the executor saw its completion.
using TaskTime = Interval;

/// One step of one rank, indexed like the plan: times[stream][entry].
struct StepTrace {
  std::int64_t step = 0;
  std::int64_t begin = 0, end = 0;
  std::vector<std::vector<TaskTime>> times;
};

/// The times at which one rank was busy in a step, as merged intervals of each kind. exposed = communication while no
/// computation runs.
struct BusyTimes {
  Intervals compute, communication, exposed;
  std::vector<Intervals> streams;  // by stream
};

/// Throws std::logic_error if the trace has other streams or entries than the plan.
void check_shape(const Plan& plan, const StepTrace& trace);

struct RecordedStream {
  std::string name = {};
  bool compute = true;
  bool local = false;  // neither computes nor communicates: a CPU thread's, say
  bool communicates() const { return !compute && !local; }
  friend bool operator==(const RecordedStream&, const RecordedStream&) = default;
};

/// The plan's streams, in its order.
std::vector<RecordedStream> recorded_streams(const Plan& plan);

/// From each stream's busy intervals.
BusyTimes busy_times(std::vector<Intervals> intervals, std::span<const RecordedStream> streams);

/// Throws std::logic_error as check_shape() does.
BusyTimes busy_times(const Plan& plan, const StepTrace& trace);

/// Interval sums of one step on one rank, in nanoseconds; overlapped = communication while a computation runs, so
/// exposed + overlapped = communication.
struct OverlapSummary {
  std::int64_t step = 0, compute = 0, communication = 0, exposed = 0, overlapped = 0;
  /// overlapped / communication, in [0, 1]; 0 when nothing communicates.
  double overlap_fraction() const {
    return communication == 0 ? 0.0 : static_cast<double>(overlapped) / static_cast<double>(communication);
  }
};

OverlapSummary summarize(const BusyTimes& busy, Interval step);
OverlapSummary summarize(const Plan& plan, const StepTrace& trace);

/// Consecutive steps of one rank.
struct RankTrace {
  int rank = 0;
  std::vector<StepTrace> steps;
};

}  // namespace weft::plan
