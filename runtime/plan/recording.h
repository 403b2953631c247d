// Recordings: traced steps, independent of the plan that ran. Timelines, reports, summaries and exports are made from
// them, whether the steps were measured, simulated or read from a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/grid.h"
#include "graph/operation.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::plan {

/// The properties of a task that are the same in every rank and step.
struct RecordedTask {
  std::string name = {};
  std::string kind = {};  // kind_name() of its operation: "gemm", "all_reduce"
  graph::KindClass style = graph::KindClass::elementwise;
  std::uint32_t stream = 0;  // index into Recording::streams
  graph::Phase phase = graph::Phase::forward;
  std::int32_t layer = -1, micro_batch = -1;
  double flops = 0, bytes = 0, network_bytes = 0;
  /// Bytes of the scratch tensors that this task accesses first, or last, in the plan's order.
  std::int64_t allocates = 0, frees = 0;
  std::string channel = {};     // a collective's process group, "" for a computation
  std::int64_t group_size = 0;  // its ranks; 0: not known
  std::string reason = {};      // the policy's
  friend bool operator==(const RecordedTask&, const RecordedTask&) = default;
};

/// `to` waits for `from`; indices into Recording::tasks. With distance 1, `from` belongs to the previous step.
struct RecordedEdge {
  std::uint32_t from = 0, to = 0;
  graph::EdgeKind kind = graph::EdgeKind::completes_before;
  graph::EdgeReason reason = graph::EdgeReason::read_after_write;
  std::uint8_t distance = 0;
  friend bool operator==(const RecordedEdge&, const RecordedEdge&) = default;
};

struct RecordedStep {
  std::int64_t step = 0;
  std::int64_t begin = 0, end = 0;   // nanoseconds, on one clock for all ranks
  std::vector<TaskTime> times = {};  // by task
  friend bool operator==(const RecordedStep&, const RecordedStep&) = default;
};

struct RecordedRank {
  int rank = 0;
  std::vector<RecordedStep> steps = {};  // consecutive
  friend bool operator==(const RecordedRank&, const RecordedRank&) = default;
};

/// All ranks have the same streams and tasks, since they run one plan.
struct Recording {
  std::string policy = {};
  int world = 1;                             // number of ranks that ran, traced or not
  std::optional<graph::Grid> grid = {};      // the arrangement of the ranks, if known
  std::int64_t state_bytes = 0;              // of one rank, outside of scratch
  std::uint64_t plan_fingerprint = 0;        // 0: not known
  std::vector<RecordedStream> streams = {};  // in the plan's order
  std::vector<RecordedTask> tasks = {};      // in the plan's total order
  std::vector<RecordedEdge> edges = {};      // the graph's, then the policy's and the memory planner's, as in the plan
  std::vector<RecordedRank> ranks = {};
  friend bool operator==(const Recording&, const Recording&) = default;
};

/// Throws std::logic_error if `traced` has steps of another plan. Collectives get group sizes if there is a grid.
Recording record(const Plan& plan, std::span<const RankTrace> traced, int world,
                 const std::optional<graph::Grid>& grid = {});

/// Live scratch bytes of a rank from `time` (on the step's clock) until the next point.
struct MemoryPoint {
  std::int64_t time = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

/// Scratch is alive from the begin of the task that allocates it to the end of the task that frees it. Points have
/// rising times; the first is the step's begin, with 0 bytes.
std::vector<MemoryPoint> memory_curve(const Recording& recording, const RecordedStep& step);

/// Bytes that the running collectives send, as a curve like memory_curve().
std::vector<MemoryPoint> in_flight_curve(const Recording& recording, const RecordedStep& step);

/// `to` waits for the end of `from` on another stream; neither the order of streams nor other waits imply it.
struct RecordedWait {
  std::uint32_t from = 0, to = 0;
  std::uint8_t distance = 0;
  friend bool operator==(const RecordedWait&, const RecordedWait&) = default;
};

/// The waits between streams, in the order of `to`. A wait for the previous step is left out only if an earlier task of
/// its stream has the same or a later one.
std::vector<RecordedWait> waits_between_streams(const Recording& recording);

/// The times at which one rank was busy in a step.
BusyTimes busy_times(const Recording& recording, const RecordedStep& step);

/// Interval sums of one step on one rank.
OverlapSummary summarize(const Recording& recording, const RecordedStep& step);

}  // namespace weft::plan
