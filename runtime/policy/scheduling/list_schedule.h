// The list scheduler that policies share. It simulates the streams, and starts the best ready task of each idle stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/policy/scheduling/memory_forecast.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {

class ListScheduler;

/// Chooses among ready tasks, for policies that need more than one fixed priority per task.
class ListChooser {
 public:
  struct Choice {
    std::size_t index = 0;     // into `ready`
    std::uint32_t reason = 0;  // index into reasons()
  };
  virtual ~ListChooser() = default;
  virtual std::vector<plan::Reason> reasons() const = 0;
  /// `ready` holds at least two nodes (class_tasks.h) for the same kind of lane, all of which may start now.
  virtual Choice choose(std::span<const std::uint32_t> ready, const ListScheduler& state) = 0;
};

/// Computations go to the first compute stream that is idle, collectives to their channel's stream. No stream idles
/// while one of its tasks may start. With a memory limit a ready task waits for as long as the forecast of its start
/// (memory_forecast.h) exceeds the limit, while others run; when no task fits and none runs, the first task of the
/// program that isn't done starts, which never raises the forecast. So an order exceeds the limit only if program order
/// does.
///
/// Backward, it schedules the graph with all edges reversed, without a memory limit: a task's finish is then the time
/// from its begin to the end of the step. Finishes of one direction are priorities of the other (Li and Willis, "An
/// iterative scheduling technique for resource-constrained project scheduling", 1992).
///
/// With `gathers_ahead` the gathers of weights wait for the first use of an earlier weight. So they leave memory to
/// computations that run ahead.
///
/// Several rank classes of a pipeline are scheduled together, by nodes and lanes (scheduling/class_tasks.h), each class
/// within its own limit: messages and collectives of several classes start on all members at once. The orders of the
/// classes are restrictions of one order of starts, so they can't deadlock, nor can they if a rank has one
/// queue for all communication. Added edges let the memory planner use the buffers of messages again: a receive waits
/// for the last computation that was over when the visit to a stage began in which it starts; a visit waits for sends
/// that were over when the visit before it began.
///
/// Build one per step: run() allocates nothing, as searches call it thousands of times. A run takes
/// O((tasks + edges) log tasks) without a memory limit. With a limit, a task that doesn't fit is tried again after
/// memory was freed or the front moved, if the forecast before its place leaves room.
class ListScheduler {
 public:
  enum class Direction : std::uint8_t { forward, backward };
  /// `limits`: bytes of scratch by class, 0 for any number; empty: no limits.
  ListScheduler(ClassTasks tasks, const PolicyOptions& options, std::span<const std::int64_t> limits,
                Direction direction = Direction::forward);
  ListScheduler(const ListScheduler&) = delete;
  ListScheduler& operator=(const ListScheduler&) = delete;

  /// Schedules by the largest priority (one per task of all classes), ties in program order. Returns the makespan.
  double run(std::span<const double> priority);
  double run(ListChooser& chooser);

  /// Its reasons. A code is also the index into Order::reasons; a chooser's own come in the place of the last two.
  enum Code : std::uint16_t { kOnlyReady, kHeld, kOverLimit, kLongestPath, kTiesOnLongestPath };
  static constexpr plan::ReasonText kTexts[] = {
      {"the only task of its stream that could start"},
      {.pattern = "held back until memory was free: the forecast was above the limit", .for_memory = true},
      {.pattern = "above the memory limit: nothing fits, and this comes first in the program", .for_memory = true},
      {"the ready task with the longest path to the end of the step"},
      {"first in program order of the ready tasks that tie on the longest path to the end of the step"},
  };
  static constexpr plan::ReasonTable kReasons{"list", kTexts};
  static plan::Reason longest_path() { return {.table = &kReasons, .code = kLongestPath}; }

  /// The orders of the last run, by class. `best`: the reason of tasks that had the largest priority. The code after it
  /// is that of tasks that had it with others, and come first in program order.
  std::vector<plan::Order> orders(const plan::Reason& best = longest_path()) const;
  std::vector<plan::Order> orders(const ListChooser& chooser) const;
  /// The lost time of the last run: tasks on a path from its end back to its start that waited for their stream
  /// although their inputs were ready, each with the task that the stream ran instead. Takes O(tasks + edges).
  struct Blocked {
    std::uint32_t task, by;
  };
  std::vector<Blocked> blocked() const;
  /// By task, of the last run; of other members than a node's first one, 0.
  std::span<const double> finishes() const { return finish_; }
  const ClassTasks& tasks() const { return tasks_; }

  // -- for choosers, during a run ---------------------------------------------------------------------------
  double now() const { return running_.now(); }
  double cost(std::size_t task) const { return cost_[task]; }
  /// The number of edges into the task whose source isn't done, and the tasks that its edges lead to (one entry per
  /// edge).
  std::uint32_t missing(std::size_t task) const { return missing_[task]; }
  std::span<const std::uint32_t> successors(std::size_t task) const { return edges_.after(task); }
  /// The latest end of the running collectives of the task's class; nullopt if none runs.
  std::optional<double> end_of_collectives(std::uint32_t task) const;
  /// Of the task's class.
  std::int64_t live_bytes(std::uint32_t task) const { return memory_[tasks_.rank_of(task)].live(); }
  std::int64_t memory_limit(std::uint32_t task) const { return limits_[tasks_.rank_of(task)]; }
  /// Bytes that the node frees at its end beyond those that it adds at its start, in all classes.
  std::int64_t frees(std::uint32_t node) const;
  /// Makes runs keep account of memory even without a memory limit.
  void watch_memory() { watches_memory_ = true; }

 private:
  static constexpr std::uint32_t kIdle = RunningLanes::kIdle;

  struct Ready {
    double key;
    std::uint32_t task;
    bool operator<(const Ready& other) const { return key < other.key || (key == other.key && task > other.task); }
  };
  /// A visit of a class's computations to a stage, and the messages that its buffers wait for.
  struct BufferWaits {
    std::int32_t micro_batch = -1, stage = -1;
    graph::Phase phase = graph::Phase::forward;
    std::uint32_t last_computed = kIdle, computed_before = kIdle;  // that ended last; when the visit began
    std::vector<std::uint32_t> sent, sent_before, waited;          // by stream: the last send or wait of each kind
  };
  double run();
  void release(std::uint32_t task);
  bool start_something(std::size_t lane);
  bool start_the_front();
  void start(std::size_t lane, std::uint32_t task, std::uint32_t reason);
  void finish(std::size_t lane, std::uint32_t task);
  bool fits(std::uint32_t task);
  void release_those_that_fit(std::size_t rank);
  bool release_all_held();
  void wait_for_freed_memory(std::size_t stream, const graph::ClassTask& member);
  void wait_for_buffers(std::size_t stream, const graph::ClassTask& member);
  std::vector<plan::Order> orders_with(std::span<const plan::Reason> reasons) const;

  ClassTasks tasks_;
  std::vector<double> cost_;
  NodeEdges edges_;
  std::vector<std::vector<graph::Edge>> prefetch_edges_;  // by class, into gathers that the options delay
  std::vector<std::int64_t> limits_;                      // by class; 0: none
  bool limited_ = false, watches_memory_ = false;
  std::vector<std::uint32_t> communications_, computations_;  // lanes

  // of a run
  std::span<const double> priority_;
  ListChooser* chooser_ = nullptr;
  std::vector<MemoryForecast> memory_;  // by class
  RunningLanes running_;
  std::vector<std::vector<Ready>> ready_;         // by resource: a heap, or with a chooser a list
  std::vector<std::set<std::uint32_t>> waiting_;  // by resource: ready tasks that didn't fit when last tried
  std::vector<std::uint32_t> candidates_;
  std::vector<std::uint32_t> missing_, sequence_, lane_of_, reason_;
  std::vector<double> finish_;  // by task
  std::vector<char> held_;
  // By class:
  std::vector<std::vector<std::uint32_t>> last_free_;  // by stream: its last task that freed memory, or kIdle
  std::vector<std::vector<std::uint32_t>> waited_;  // [stream][stream]: the last such task that the stream waited for
  std::vector<std::vector<graph::Edge>> memory_edges_;
  std::vector<BufferWaits> visits_;  // empty with one class
};

}  // namespace weft::policy
