// When the tasks of an order begin and end, and its makespan, by which searches compare orders; for schedulers, the
// running nodes of all rank classes, which is the engine of time by lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/time/engine.h"

namespace weft::policy {

/// At most one node a lane. Times are the simulator's for homogeneous ranks: one rank stands for its class, and a
/// node with members in several classes is a meeting (runtime/time/engine.h). With options without machine and links,
/// and costs that are the same beside computations, each node takes its cost.
class RunningLanes {
 public:
  static constexpr std::uint32_t kIdle = time::Engine::kIdle;
  static constexpr double kNever = time::Engine::kNever;

  /// The tasks must outlive the object.
  RunningLanes(const ClassTasks& tasks, const PolicyOptions& options);

  void reset();
  /// Whether a node's time depends on what runs beside it.
  bool contends() const;
  bool idle(std::size_t lane) const { return lanes_[lane].node == kIdle; }
  /// When the lane's node ends if no rate changes.
  double finish(std::size_t lane) const { return engine_.finish(lanes_[lane].lead); }
  double now() const { return engine_.now(); }
  void start(std::size_t lane, std::uint32_t node);
  /// Sets the rates of what runs, after each start or end.
  void settle();
  /// The lane's node, and the time that it would still take alone; some node must run.
  std::uint32_t node(std::size_t lane) const { return lanes_[lane].node; }
  double remaining(std::size_t lane) const { return engine_.remaining(lanes_[lane].lead); }
  /// The next time at which a node ends; kNever when nothing runs.
  double next() const { return engine_.next(); }

  /// Goes to next(), ends the nodes that end then, and calls ended(lane, node) for each.
  template <class F>
  void end_next(F&& ended) {
    engine_.advance(next());
    while (next() == now()) {
      const std::size_t slot = engine_.first(), lane = lane_of_slot_[slot];
      const std::uint32_t node = std::exchange(lanes_[lane].node, kIdle);
      engine_.end(slot);
      for (const graph::ClassTask& member : tasks_.members(node)) changed_[member.of_class] = 1;
      ended(lane, node);
    }
  }

  struct Lane {
    std::uint32_t node = kIdle;
    std::size_t lead = 0;  // the slot of the node's first member
  };
  /// For searches that come back to an earlier moment.
  struct State {
    time::Engine::State engine;
    std::vector<Lane> lanes;
    std::vector<char> changed;
  };
  void save(State& state) const {
    state.engine = engine_.state();
    state.lanes = lanes_;
    state.changed = changed_;
  }
  void restore(const State& state) {
    engine_.restore(state.engine);
    lanes_ = state.lanes;
    changed_ = state.changed;
  }

 private:
  std::size_t slot_on(std::size_t lane, const graph::ClassTask& member) const {
    return engine_.slot(member.of_class, tasks_.stream_on(lane, member));
  }

  const ClassTasks& tasks_;
  std::vector<time::ClassLoads> loads_;  // by class
  time::Engine engine_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> lane_of_slot_;
  std::vector<char> changed_;  // by class: tasks have started or ended since it was settled
};

/// One step, by task, in the unit of the costs.
struct Timetable {
  std::vector<double> start, finish;
  double makespan = 0;  // the end of the last task
};

/// Each lane (class_tasks.h) runs its queue one node at a time, with the contention that the options describe
/// (policy.h); a node starts as soon as its edges of distance 0 (the graphs' and the added edges) allow. As in a
/// plan, an edge issued_before between two streams waits for completion. The sequences must be topological, and the
/// orders of several classes must run together (pipeline/joint_orders.h); a node with several members takes its place
/// from the order of its first one. Equal to the simulator's times of homogeneous ranks, if the orders' plans have
/// no waits beyond these edges. By number of a task; all members of a node have its times. Takes O(tasks · streams +
/// edges). `tasks` has the orders' streams.
Timetable timetable_of(const ClassTasks& tasks, std::span<const plan::Order> orders, const PolicyOptions& options);
Timetable timetable_of(graph::Classes classes, std::span<const plan::Order> orders,
                       std::span<const cost::TaskCosts> costs, const PolicyOptions& options);

}  // namespace weft::policy
