// The list scheduler that policies share: simulates the streams, and whenever one is idle starts the best of its ready
// tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/memory_forecast.h"
#include "runtime/policy/scheduling/running_tasks.h"

namespace weft::policy {

class ListScheduler;

/// Chooses among ready tasks by more than one fixed number each.
class ListChooser {
 public:
  struct Choice {
    std::size_t index = 0;     // into `ready`
    std::uint32_t reason = 0;  // index into reasons()
  };
  virtual ~ListChooser() = default;
  virtual std::vector<plan::Reason> reasons() const = 0;
  /// `ready` holds at least two tasks of one kind of stream, all of which may start now.
  virtual Choice choose(std::span<const std::uint32_t> ready, const ListScheduler& state) = 0;
};

/// Computations go to the first compute stream that is idle, collectives to their channel's stream. No stream idles
/// while one of its tasks may start. With a memory limit a ready task waits for as long as the forecast of its start
/// (memory_forecast.h) exceeds the limit, while others run; when nothing fits and nothing runs, the first task of the
/// program that isn't done starts, which never adds to the forecast. So an order exceeds the limit only if the
/// program's own order does.
///
/// Backward it schedules the graph with all edges turned round, from its end to its start, without a memory limit: a
/// task's finish is then how long before the end of the step it begins. Each pass's finishes are the other direction's
/// priorities (Li and Willis, "An iterative scheduling technique for resource-constrained project scheduling", 1992).
///
/// Built once a graph, it allocates nothing in run(): searches call it thousands of times.
/// A run takes O((tasks + edges) log tasks) without a memory limit. With one, a task that doesn't fit is tried again
/// when memory has become free or the front has moved, and the forecast in front of its place leaves room.
class ListScheduler {
 public:
  enum class Direction : std::uint8_t { forward, backward };
  ListScheduler(const graph::Graph& graph, const cost::TaskCosts& costs, const PolicyOptions& options,
                Direction direction = Direction::forward);

  /// Schedules by the largest priority (one a task), ties in program order. Returns the makespan.
  double run(std::span<const double> priority);
  double run(ListChooser& chooser);

  /// What the last run decided. `best`: the reason of tasks that had the largest priority, of kind best_ready.
  plan::Order order(const plan::Reason& best) const;
  plan::Order order(const ListChooser& chooser) const;
  /// Where the last run lost time: tasks of a path from its end back to its start that waited for their stream though
  /// their inputs were there, each with the task that the stream ran instead. Takes O(tasks + edges).
  struct Blocked {
    std::uint32_t task, by;
  };
  std::vector<Blocked> blocked() const;
  /// By task, of the last run.
  std::span<const double> finishes() const { return finish_; }

  // -- for choosers, while a run is going on
  // ---------------------------------------------------------------------------
  const graph::Graph& graph() const { return graph_; }
  double now() const { return now_; }
  double cost(std::size_t task) const { return cost_[task]; }
  /// Edges into the task whose source isn't done, and the tasks behind it (one entry an edge).
  std::uint32_t missing(std::size_t task) const { return missing_[task]; }
  std::span<const std::uint32_t> successors(std::size_t task) const {
    return std::span(successors_).subspan(begin_[task], begin_[task + 1] - begin_[task]);
  }
  /// The latest end of a collective that is running now; nothing if none is.
  std::optional<double> end_of_collectives() const;
  const MemoryForecast& memory() const { return memory_; }
  std::int64_t memory_limit() const { return limit_; }
  /// Without a memory limit a run keeps no account of memory, unless this asks for it.
  void watch_memory() { watches_memory_ = true; }

 private:
  static constexpr std::uint32_t kIdle = RunningTasks::kIdle;
  enum : std::uint32_t { kOnlyReady, kHeld, kOverLimit, kFirstRule };  // indices into the order's reasons

  struct Ready {
    double key;
    std::uint32_t task;
    bool operator<(const Ready& other) const { return key < other.key || (key == other.key && task > other.task); }
  };
  double run();
  void release(std::uint32_t task);
  bool start_something(std::size_t stream);
  bool start_the_front();
  void start(std::size_t stream, std::uint32_t task, std::uint32_t reason);
  void finish(std::size_t stream);
  bool fits(std::uint32_t task);
  void hold(std::uint32_t task);
  void release_those_that_fit();
  bool release_all_held();
  void wait_for_freed_memory(std::size_t stream, std::uint32_t task);
  plan::Order order_with(std::span<const plan::Reason> reasons) const;

  const graph::Graph& graph_;
  std::vector<plan::Stream> streams_;
  std::vector<double> cost_;
  std::vector<std::uint32_t> resource_;  // by task: 0 computations, s: collectives of communication stream s
  std::vector<std::uint32_t> begin_, successors_, in_edges_;
  std::int64_t limit_;
  bool watches_memory_ = false;

  // of a run
  std::span<const double> priority_;
  ListChooser* chooser_ = nullptr;
  MemoryForecast memory_;
  double now_ = 0;
  RunningTasks running_;
  std::vector<std::uint32_t> resource_of_stream_;
  std::vector<std::vector<Ready>> ready_;         // by resource: a heap, or with a chooser a list
  std::vector<std::set<std::uint32_t>> waiting_;  // by resource: ready tasks that didn't fit when they were tried
  std::vector<std::uint32_t> candidates_;
  std::vector<std::uint32_t> missing_, sequence_, stream_of_, reason_;
  std::vector<double> finish_;  // by task
  std::vector<char> held_;
  std::vector<std::uint32_t> last_free_;  // by stream: its last task that freed memory, or kIdle
  std::vector<std::uint32_t> waited_;     // [stream][stream]: the last such task that was waited for
  std::vector<graph::Edge> memory_edges_;
};

/// cost + the longest path behind it, by task: the upward rank.
std::vector<double> upward_rank(const graph::Graph& graph, std::span<const double> cost);

}  // namespace weft::policy
