// The checker's own happens-before relation: two steps of a plan, run symbolically.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// Runs two consecutive steps entry by entry: an entry starts when the one before it in its stream is done and all its
/// waits hold, and is then done at once. Entries that can't start are deadlocked. Each entry has a clock: the number of
/// entries of every stream that are certain to be complete when it starts. Shares no code with the planner, so that the
/// checker can't repeat the planner's mistakes. The plan's ids and indices must be valid.
class Replay {
 public:
  enum class Issue : std::uint8_t {
    by_stream,            // streams advance independently of each other
    in_collective_order,  // also, a collective starts only after all collectives before it in the total order
  };

  Replay(const Plan& plan, Issue issue);

  bool complete() const { return stuck_.empty(); }
  /// The streams whose next entry can't start, each with the number of entries that it ran in the two steps.
  std::span<const Position> stuck() const { return stuck_; }
  /// "compute0 is stuck at b, which waits for a on data; data is stuck at …", along one cycle of waits.
  std::string deadlock() const;

  /// The number of `stream`'s entries, counted from the beginning of the first step, that are complete when `task` of
  /// the second step starts.
  std::uint32_t clock(graph::TaskId task, std::size_t stream) const {
    return clocks_[(tasks_ + task.index()) * streams_ + stream];
  }
  /// Is `from` complete before `to` starts, `from` being of the same step or, at distance 1, of the step before?
  bool before(graph::TaskId from, graph::TaskId to, std::uint8_t distance) const {
    const Position& at = plan_.position[from.index()];
    return clock(to, at.stream.index()) > first(at.stream.index(), distance == 0 ? 1 : 0) + at.entry;
  }
  /// The number of a stream's first entry of a step.
  std::uint32_t first(std::size_t stream, std::uint32_t step) const {
    return step * static_cast<std::uint32_t>(plan_.streams[stream].entries.size());
  }

 private:
  void run(Issue issue);
  const Entry& entry(std::size_t stream, std::uint32_t number) const;
  /// The entry's first wait that doesn't hold yet, or null.
  const Wait* pending(std::size_t stream, std::uint32_t number) const;
  /// The count that a stream must reach for `wait` of an entry of `step`; 0 for one of the step before the first.
  std::uint32_t target(const Wait& wait, std::uint32_t step) const;

  const Plan& plan_;
  std::size_t tasks_, streams_;
  std::vector<std::uint32_t> done_;    // by stream: entries complete, over both steps
  std::vector<std::uint32_t> clocks_;  // [step][task][stream]
  std::vector<Position> stuck_;
};

}  // namespace weft::plan
