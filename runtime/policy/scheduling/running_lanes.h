// The running nodes of all rank classes of a program, for schedulers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/policy/scheduling/running_tasks.h"

namespace weft::policy {

/// At most one node a lane. Each member proceeds at the rate of its own class (running_tasks.h), and a node ends with
/// its last member. Used as RunningTasks is, which it equals for one class.
class RunningLanes {
 public:
  static constexpr std::uint32_t kIdle = RunningTasks::kIdle;

  /// The tasks must outlive the object.
  RunningLanes(const ClassTasks& tasks, const PolicyOptions& options);

  void reset();
  bool idle(std::size_t lane) const { return lanes_[lane].node == kIdle; }
  /// When the lane's node ends if no rate changes.
  double finish(std::size_t lane) const;
  void start(std::size_t lane, std::uint32_t node, double now);
  /// Sets the rates of what runs, after each start or end.
  void settle(double now);
  /// The next time at which a member ends; infinity when nothing runs.
  double next() const;

  /// Ends the members that end at `now`, and calls ended(lane, node) for each node of which none runs any more.
  template <class F>
  void end_at(double now, F&& ended) {
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      Class& each = classes_[k];
      if (each.next != now) continue;
      for (std::size_t s = 0; s < each.running.streams(); ++s) {
        if (each.running.idle(s) || each.running.finish(s) != now) continue;
        each.running.end(s);
        each.changed = true;
        Lane& lane = lanes_[each.lane_of_stream[s]];
        if (--lane.members > 0) continue;
        const std::uint32_t node = lane.node;
        lane.node = kIdle;
        ended(static_cast<std::size_t>(each.lane_of_stream[s]), node);
      }
    }
  }

 private:
  struct Class {
    RunningTasks running;
    std::vector<std::uint32_t> lane_of_stream;
    double next = 0;
    bool changed = true;
  };
  struct Lane {
    std::uint32_t node = kIdle, members = 0;  // the number of members that run
  };
  const ClassTasks& tasks_;
  std::vector<Class> classes_;
  std::vector<Lane> lanes_;
};

}  // namespace weft::policy
