// Minimal waits by vector clocks: the waits of each task, and the entries known to be complete when it starts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// Walks two steps of a plan in issue order and keeps, for each stream, the number of entries of every stream that are
/// known to be complete. An edge needs no wait if the stream already knows that its source is complete, or if another
/// wait of the same task implies it.
///
///   compute0: a1 a2 b     edges a1→c, a2→d, c→d, c→b:   c waits for a1; d only for a2, as its own stream has completed
///   data:     c d         c; b waits for c, but would need no wait after an earlier wait for d
///
/// Edges of distance 1 give knowledge about the previous step. The second of the two steps is the steady state, since a
/// path of edges from one step into the next visits no third step. The first step of a run has no previous step: waits
/// of distance 1 hold at once, and no wait of distance 0 is left out because of them.
///
/// An edge issued_before between two streams is treated as completes_before, since streams can only wait for
/// completion. Within a stream the queue implies it.
class HappensBefore {
 public:
  /// `plan` needs graph, streams (with the entries' tasks), position, sequence and added_edges.
  explicit HappensBefore(const Plan& plan);

  /// By stream: the number of its entries that are known to be complete when `task` starts, counted from the beginning
  /// of the previous step. In a stream of n entries, n means all of the previous step and none of this one.
  std::span<const std::uint32_t> known(graph::TaskId task) const {
    return {clocks_.data() + (tasks_ + task.index()) * streams_, streams_};
  }

  /// The minimal waits of a task, by stream.
  const std::vector<Wait>& waits(graph::TaskId task) const { return waits_[task.index()]; }

 private:
  std::size_t tasks_, streams_;
  std::vector<std::uint32_t> clocks_;  // [step][task][stream]
  std::vector<std::vector<Wait>> waits_;
};

}  // namespace weft::plan
