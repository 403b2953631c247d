// Exact search over all plans of a small step: orders, compute streams, and waits of tasks for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/policy/scheduling/remaining_work.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {

/// A plan may hold a task back until another one is done (plan::Order::added_edges), although its stream is idle and
/// its inputs are there. Under contention that can make a step shorter: what starts later no longer slows down what is
/// more urgent.
///
/// A plan's tasks start when the step begins or when some task ends. So branch and bound simulates the step with
/// timetable.h's contention, and at each of these moments tries every choice of ready tasks to start, the empty one
/// included. Every plan is one of these sequences of choices: its own starts. Every sequence is a plan, with its order
/// of starts, and an added edge to a task that was held back from a task that ended when it started. (Of several
/// classes this takes a task of its own class that ended then. Where there is none, no plan has these starts, and the
/// search isn't complete if they are shorter.) A branch is left
/// - if a bound of the rest isn't below the shortest step so far: longest paths, the work of each resource, and the
///   speed that collectives take away (remaining_work.h);
/// - if the same tasks ran before, no later, and left the same to do.
/// Compute streams of a class are alike, so ready computations go to the first that is idle.
class StepSearch {
 public:
  /// Whether orders may take the place of the shortest ones, apart from their time.
  using Accepts = std::function<bool(const std::vector<plan::Order>&)>;

  /// Looks for steps shorter than `makespan`. `tasks` must outlive the object.
  StepSearch(const ClassTasks& tasks, const PolicyOptions& options, double makespan, Accepts accepts);
  StepSearch(const StepSearch&) = delete;
  StepSearch& operator=(const StepSearch&) = delete;

  struct Outcome {
    bool complete = false;  // no plan is shorter than makespan()
    std::int64_t nodes = 0;
  };
  /// A node is a start of a task, or a moment; at most about `nodes`.
  Outcome search(std::int64_t nodes);

  double makespan() const { return shortest_; }
  /// By class, of a step shorter than the one given; empty if none was found. `chosen`: the reason of all tasks.
  std::vector<plan::Order> orders(const plan::Reason& chosen) const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX, kNobody = UINT32_MAX - 1;

  struct Start {
    std::uint32_t node = 0, lane = 0;
    std::uint32_t waits_for = kNone;  // kNobody: it was held back, and no plan can tell until when
  };
  struct Moment {
    RunningLanes::State running;
    std::vector<RemainingWork::Sums> sums;
    std::size_t ended = 0, just_ended = 0, started = 0;
    std::vector<std::uint32_t> last_on;
  };

  void save(Moment& moment) const;
  void restore(const Moment& moment);
  void at_moment();
  void choose(std::size_t resource, std::uint32_t from);
  void run_on();
  void start(std::uint32_t node, std::size_t lane);
  std::uint32_t waits_for(std::uint32_t node, std::size_t lane) const;
  std::optional<std::size_t> idle_lane(std::size_t resource) const;
  bool seen_before();
  double least_end();
  void take(std::uint32_t node, double part, std::vector<RemainingWork::Sums>& sums) const;
  void take_leaf();
  std::vector<plan::Order> orders_of(const std::vector<Start>& starts, const plan::Reason& chosen) const;

  const ClassTasks& tasks_;
  const PolicyOptions& options_;
  Accepts accepts_;
  NodeEdges successors_, predecessors_;
  std::vector<std::uint32_t> topological_;
  std::vector<std::vector<std::uint32_t>> lanes_of_, nodes_of_;  // by resource; nodes by falling tail
  std::vector<double> cost_, tail_;                              // by node
  std::vector<RemainingWork> work_;                              // by class
  RunningLanes running_;

  std::vector<std::uint32_t> missing_;
  std::vector<char> placed_;
  std::vector<std::uint32_t> ended_;
  std::size_t just_ended_ = 0;  // from where on they ended at this moment
  std::vector<Start> started_, shortest_starts_;
  std::vector<std::uint32_t> last_on_;  // by lane: what it ran last
  std::vector<double> head_;            // of least_end()
  std::vector<RemainingWork::Sums> sums_, sums_now_;
  std::vector<Moment> moments_;  // by number of starts before
  std::unordered_map<std::string, double> seen_;
  std::int64_t nodes_ = 0, most_nodes_ = 0;
  double shortest_ = 0;
  bool complete_ = true;
};

}  // namespace weft::policy
