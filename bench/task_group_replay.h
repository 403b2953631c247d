// A competitor: a replay executor of forty lines over oneTBB's task_group, with an atomic counter for each task.
#pragma once

#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <atomic>
#include <limits>
#include <vector>

#include "bench/task_dag.h"

namespace weft::bench {

/// A task that ends decrements its successors' counters, runs the first successor that became ready itself, and passes
/// the others to task_group::run. Call reset() before each run().
template <class Body>
class TaskGroupReplay {
 public:
  TaskGroupReplay(const TaskDag& dag, int threads, Body body)
      : dag_(dag), body_(std::move(body)), missing_(dag.size()), arena_(threads) {}

  void reset() {
    for (std::size_t task = 0; task < dag_.size(); ++task) {
      missing_[task].store(static_cast<std::int32_t>(dag_.predecessors_of(task).size()), std::memory_order_relaxed);
    }
  }

  void run() {
    arena_.execute([this] {
      tbb::task_group group;
      for (std::uint32_t task = 0; task < dag_.size(); ++task) {
        if (dag_.predecessors_of(task).empty()) spawn(group, task);
      }
      group.wait();
    });
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  void spawn(tbb::task_group& group, std::uint32_t task) {
    group.run([this, &group, task] { follow(group, task); });
  }

  void follow(tbb::task_group& group, std::uint32_t task) {
    while (task != kNone) {
      body_(task);
      std::uint32_t next = kNone;
      for (const std::uint32_t successor : dag_.successors_of(task)) {
        if (missing_[successor].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (next == kNone) {
          next = successor;
        } else {
          spawn(group, successor);
        }
      }
      task = next;
    }
  }

  const TaskDag& dag_;
  Body body_;
  std::vector<std::atomic<std::int32_t>> missing_;
  tbb::task_arena arena_;
};

}  // namespace weft::bench
