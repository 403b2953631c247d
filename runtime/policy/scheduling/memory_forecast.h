// Predicts the scratch memory of a step whose tasks don't run in program order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/plan_memory.h"

namespace weft::policy {

/// For each place in the program: the bytes alive there if all tasks that aren't done run in program order from now on.
/// A tensor is alive from the start of its first access to the end of its last. So a task that runs ahead raises the
/// forecast between the front (the first task that isn't done) and its own place. A scheduler that starts a task only
/// if the forecast stays within the limit can always continue in program order.
///
/// Operations take O(log tasks) per tensor of the task.
class MemoryForecast {
 public:
  /// Bytes of a tensor are rounded up to `alignment`, by default that of the memory plan.
  explicit MemoryForecast(const graph::Graph& graph, std::int64_t alignment = plan::kTensorAlignment);

  void reset();
  /// The forecast's maximum up to the task's place, were it to start now.
  std::int64_t peak_with(std::size_t task) const;
  void start(std::size_t task);
  /// Returns the number of bytes that the task frees.
  std::int64_t finish(std::size_t task);

  std::int64_t live() const { return live_; }            // bytes alive now
  std::int64_t allocated() const { return allocated_; }  // bytes of all tensors allocated so far, freed or not
  /// Bytes that the task would allocate if it started now, and bytes that its end would free.
  std::int64_t adds(std::size_t task) const;
  std::int64_t frees(std::size_t task) const;
  /// The first place from the front on at which the forecast exceeds `bytes`; the number of tasks if there is none.
  std::size_t first_above(std::int64_t bytes) const;
  /// The first task of the program that isn't done.
  std::size_t front() const { return front_; }

 private:
  struct Life {
    std::int64_t bytes = 0;
    std::uint32_t first = 0, last = 0, accessors = 0;  // places in the program; number of tasks
  };

  std::span<const std::uint32_t> tensors_of(std::size_t task) const {
    return std::span(tensors_).subspan(begin_[task], begin_[task + 1] - begin_[task]);
  }
  void add(std::size_t from, std::size_t to, std::int64_t bytes);  // to places [from, to)
  std::int64_t largest(std::size_t from, std::size_t to) const;    // of places [from, to); 0 for none
  std::int64_t top(std::size_t node) const { return most_[node] + more_[node]; }

  std::size_t tasks_, leaves_ = 1;
  std::vector<std::uint32_t> begin_, tensors_;  // scratch tensors by task, each once
  std::vector<Life> lives_;                     // by tensor
  std::vector<std::int64_t> program_;           // `most_` before any task has run
  std::vector<std::int64_t> most_, more_;       // a node's maximum, and the amount added to all of its places
  std::vector<std::uint32_t> accesses_left_;    // by tensor
  std::vector<char> done_;                      // by task
  std::size_t front_ = 0;
  std::int64_t live_ = 0, allocated_ = 0;
};

}  // namespace weft::policy
