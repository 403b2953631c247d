// How long the rest of a step takes at least, by the work that is left: the bound of searches over orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// With R the time of the computations that are left and L the speed that the collectives which are left take away from
/// computations beside them, R + L is the least time to the end of the computations: a channel runs one collective at a
/// time, the uses of a link add up to one at most, and each takes at least the least loss that it causes to any
/// computation. This is the window argument of docs/bench.md, for a window that begins now. Some of L may come
/// after the last computation, and then the step takes another B at least, the least tail: at most B times the
/// greatest loss. The same holds for each channel and link by itself. k streams count as one that is k times as fast.
///
/// Thresholds choose computations and collectives with long tails only, in which case B is larger.
class RemainingWork {
 public:
  /// `tail`: by task, the longest path out of it.
  RemainingWork(const graph::Graph& graph, const cost::TaskCosts& costs, const PolicyOptions& options,
                std::span<const double> tail);

  /// The sums of one state of a step, all of it before any task is started.
  using Sums = std::vector<double>;
  const Sums& all() const { return all_; }
  /// Takes away a part of a task (1: all of it) that starts or has run.
  void take(Sums& sums, std::uint32_t task, double part) const;
  /// The least time from now to the end of the step, if no computation runs for the next `head`.
  double least(const Sums& sums, double head = 0) const;

 private:
  static constexpr std::size_t kThresholds = 6;

  std::size_t groups_ = 0;           // channels and links
  std::vector<double> thresholds_;   // the least tails of the computations that count, ascending
  std::vector<double> tail_, work_;  // by task; the time of computations, 0 for others
  struct Use {
    std::uint32_t group = 0;
    double lost = 0;  // ns
  };
  std::vector<std::uint32_t> begin_;  // by task, into uses_
  std::vector<Use> uses_;
  std::vector<double> greatest_loss_;  // by group
  Sums all_;                           // by threshold: the computations, then each group
};

}  // namespace weft::policy
