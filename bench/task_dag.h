// Plain task graphs for benchmarks of executors: tasks are numbered in program order, predecessors before successors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace weft::bench {

/// Predecessors and successors in flat arrays (CSR).
class TaskDag {
 public:
  explicit TaskDag(const std::vector<std::vector<std::uint32_t>>& predecessors)
      : before_begin_(predecessors.size() + 1, 0), after_begin_(predecessors.size() + 1, 0) {
    for (std::size_t task = 0; task < predecessors.size(); ++task) {
      for (const std::uint32_t from : predecessors[task]) {
        before_.push_back(from);
        ++after_begin_[from + 1];
      }
      before_begin_[task + 1] = static_cast<std::uint32_t>(before_.size());
    }
    for (std::size_t task = 0; task < size(); ++task) after_begin_[task + 1] += after_begin_[task];
    after_.resize(before_.size());
    std::vector<std::uint32_t> next(after_begin_.begin(), after_begin_.end() - 1);
    for (std::uint32_t task = 0; task < size(); ++task) {
      for (const std::uint32_t from : predecessors_of(task)) after_[next[from]++] = task;
    }
  }

  std::size_t size() const { return before_begin_.size() - 1; }
  std::span<const std::uint32_t> predecessors_of(std::size_t task) const {
    return std::span(before_).subspan(before_begin_[task], before_begin_[task + 1] - before_begin_[task]);
  }
  std::span<const std::uint32_t> successors_of(std::size_t task) const {
    return std::span(after_).subspan(after_begin_[task], after_begin_[task + 1] - after_begin_[task]);
  }

 private:
  std::vector<std::uint32_t> before_begin_, after_begin_, before_, after_;
};

/// Each task waits for three different tasks among the last 1000.
inline TaskDag random_dag(std::uint32_t tasks) {
  std::mt19937 random(1);
  std::vector<std::vector<std::uint32_t>> predecessors(tasks);
  for (std::uint32_t task = 1; task < tasks; ++task) {
    std::uniform_int_distribution<std::uint32_t> draw(task > 1000 ? task - 1000 : 0, task - 1);
    while (predecessors[task].size() < std::min<std::uint32_t>(task, 3)) {
      const std::uint32_t from = draw(random);
      if (std::ranges::find(predecessors[task], from) == predecessors[task].end()) predecessors[task].push_back(from);
    }
  }
  return TaskDag(predecessors);
}

}  // namespace weft::bench
