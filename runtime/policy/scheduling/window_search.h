// Exact search in a window of an order: all queues of the window's tasks, all other queues as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/policy/scheduling/remaining_work.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {

/// Makes the orders of a step's rank classes shorter: the incumbent, the best so far. Its times are computed as
/// timetable.h does, with contention. A task is a node here, and a queue that of a lane (class_tasks.h); all orders are
/// restrictions of one order of starts, so they can't deadlock.
///
/// A window is a run of tasks of all classes, by their start in the incumbent. Branch and bound simulates the step.
/// Whenever a lane is idle and could start a task of the window, each task that the window has for this lane is tried
/// as its next one, even a task that can't start yet. So all orders of the window are tried, except in three cases:
/// - a bound of the rest of the step isn't below the incumbent: longest paths, and work (remaining_work.h);
/// - the same tasks ran before, no later, and left the same to do;
/// - tasks are interchangeable and lead to no other: they keep their order.
/// After the window, a step that comes to a state of the incumbent ends as the incumbent does.
class WindowSearch {
 public:
  /// Whether orders may take the incumbent's place, apart from their time.
  using Accepts = std::function<bool(const std::vector<plan::Order>&)>;

  /// `start`: by class; its added edges hold in all orders. `tasks` has its streams. The graphs must outlive the
  /// object.
  WindowSearch(ClassTasks tasks, const PolicyOptions& options, std::vector<plan::Order> start, Accepts accepts);
  WindowSearch(const WindowSearch&) = delete;
  WindowSearch& operator=(const WindowSearch&) = delete;

  std::size_t tasks() const { return sequence_.size(); }
  double makespan() const { return makespan_; }
  /// No order with these added edges is shorter.
  double bound() const { return bound_; }
  /// The incumbent, by class. `moved`: the reason of tasks that changed their place in a queue.
  std::vector<plan::Order> orders(const plan::Reason& moved = {}) const { return orders_of(sequence_, moved); }

  struct Outcome {
    bool shorter = false;   // the incumbent is a new one
    bool complete = false;  // all orders of the window were tried or excluded
    std::int64_t nodes = 0;
  };
  /// Searches the window of `count` tasks from `first` on. A node is a simulated start of a task, or a choice; at most
  /// about `nodes`.
  Outcome search(std::size_t first, std::size_t count, std::int64_t nodes);

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Lane {
    std::vector<std::uint32_t> queue;
    std::size_t begin = 0, end = 0;  // the window's places in the queue
  };
  /// A moment of the simulation, to which it can go back. `missing_` isn't kept: it is counted back over the tasks that
  /// have ended since.
  struct State {
    RunningLanes::State running;
    std::vector<std::size_t> next;
    std::vector<std::uint32_t> committed;
    std::vector<RemainingWork::Sums> sums;
    std::size_t ended = 0, started = 0;
  };
  struct Checkpoint {
    State state;
    std::vector<std::uint32_t> missing;
  };
  /// The incumbent's state when it started a task of the lane with most tasks.
  struct Passed {
    double now = 0;
    std::vector<std::size_t> next;
    std::vector<double> remaining;
  };

  void simulate_incumbent();
  void save(State& state) const;
  void restore(const State& state);
  void start(std::size_t lane, std::uint32_t task);
  void end_next();
  std::optional<std::size_t> advance();
  void descend(std::size_t depth);
  void decide(std::size_t lane, std::size_t depth);
  bool choice_is_new(std::size_t lane, std::uint32_t task) const;
  bool in_window(std::size_t lane) const { return next_[lane] >= lanes_[lane].begin && next_[lane] < lanes_[lane].end; }
  bool is_over(std::size_t lane) const { return next_[lane] == lanes_[lane].queue.size(); }
  void take(std::vector<RemainingWork::Sums>& sums, std::uint32_t task, double part) const;
  double least_end();
  bool seen_before();
  bool passed(double& makespan) const;
  void take_leaf(double makespan);
  /// Returns the earliest time at which a task of the window could start.
  double set_window(std::size_t first, std::size_t count);
  std::vector<plan::Order> orders_of(std::span<const std::uint32_t> sequence, const plan::Reason& moved) const;

  ClassTasks tasks_;
  std::vector<plan::Order> start_;  // by class
  Accepts accepts_;
  std::vector<double> cost_;
  NodeEdges successors_, predecessors_;   // predecessors: by target
  std::vector<std::uint32_t> lane_of_;    // by task
  std::vector<std::uint32_t> same_as_;    // by task: a number that tasks share which may change places
  std::vector<std::size_t> first_place_;  // by task: its place in its queue in `start`
  std::vector<double> tail_;              // by task, of the graphs
  RunningLanes running_;
  std::vector<RemainingWork> work_;  // by class
  double makespan_ = 0, bound_ = 0;

  // of the incumbent
  std::vector<std::uint32_t> sequence_;  // by start
  std::vector<std::uint32_t> place_;     // by task, in `sequence_`
  std::vector<double> ends_;             // by task
  std::vector<double> queue_tail_;       // by task: the longest path out of it, its queue included
  std::vector<Checkpoint> checkpoints_;
  std::vector<Passed> passed_;  // by place in the clock's queue
  std::size_t clock_ = 0;       // the lane with most tasks

  // of a search
  std::vector<Lane> lanes_;
  std::vector<std::size_t> next_;         // by lane, in its queue
  std::vector<std::uint32_t> committed_;  // by lane: the window's task that runs next, although it can't start yet
  std::vector<char> in_window_, placed_;  // by task; placed: it started, or its lane waits for it
  std::vector<std::vector<std::uint32_t>> of_window_;  // by lane, in the incumbent's order
  std::vector<double> window_tail_;                    // by task of the window
  std::vector<std::uint32_t> missing_, ended_, started_;
  std::size_t first_ = 0, left_in_window_ = 0;
  std::vector<RemainingWork::Sums> sums_, sums_now_;  // by class
  std::vector<State> states_;                         // by depth
  std::unordered_map<std::string, double> seen_;
  std::int64_t nodes_ = 0, most_nodes_ = 0;
  double shortest_ = 0;                         // so far
  std::vector<std::uint32_t> shortest_window_;  // the window's tasks by start; empty: as in the incumbent
  bool complete_ = true;
};

}  // namespace weft::policy
