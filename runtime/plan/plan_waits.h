// Minimal waits by vector clocks: what each stream has to wait for, and what every task may take for granted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// Walks two steps of a plan in issue order and keeps, per stream, how many entries of every stream are known to be
/// complete. A task waits only for news: an edge whose source its stream knows to be complete, or that another wait
/// of the same task brings along, costs nothing.
///
///   compute0: a1 a2 b     edges a1→c, a2→d, c→d, c→b:   c waits for a1; d for a2 only, as its own stream has passed
///   data:     c d         c; b waits for c, and had it stood behind a wait for d, it would wait for nothing
///
/// Knowledge of the step before comes from edges of distance 1; the second of the two steps is the steady state, since
/// a path of edges from one step into the next visits no third. The first step ever run has no step before it: waits of
/// distance 1 hold at once, and no wait of distance 0 was left out because of one.
///
/// An edge issued_before is treated as completes_before unless both tasks share a stream, where the queue implies it:
/// streams have no way to say "started", and waiting for completion is sound.
class HappensBefore {
 public:
  /// `plan` needs graph, streams (tasks of the entries), position, sequence and added_edges, the sequence being a
  /// topological order of all edges.
  explicit HappensBefore(const Plan& plan);

  /// How many entries of `stream` are known to be complete when `task` starts, counted from the beginning of the step
  /// before: with n entries in the stream, n means all of the last step and none of this one.
  std::span<const std::uint32_t> known(graph::TaskId task) const {
    return {clocks_.data() + (tasks_ + task.index()) * streams_, streams_};
  }

  /// The minimal waits of a task, by stream.
  const std::vector<Wait>& waits(graph::TaskId task) const { return waits_[task.index()]; }

 private:
  void walk(const Plan& plan);

  std::size_t tasks_, streams_;
  std::vector<std::uint32_t> clocks_;  // [step][task][stream]
  std::vector<std::vector<Wait>> waits_;
};

}  // namespace weft::plan
