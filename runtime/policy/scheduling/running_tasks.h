// The running tasks of one rank and their rates: the contention of runtime/simulate/simulator.h, for policies that
// evaluate thousands of orders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/kind_slowdowns.h"
#include "runtime/cost/link_shares.h"
#include "runtime/plan/stream.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// At most one task per stream. Rates follow the simulator's rules, for ranks that are all alike: collectives share
/// their link, computations and collectives slow each other down, and transports take cores from computations. Messages
/// use one direction of a link, collectives both. With options without machine and links, and costs that are the same
/// beside computations, each task takes its cost.
///
///   running.start(0, a, 0);  running.start(1, c, 0);  running.settle(0);   // after each start or end
///   running.finish(0)                                                    // when a ends if no rate changes
class RunningTasks {
 public:
  static constexpr std::uint32_t kIdle = UINT32_MAX;
  /// What a stream runs.
  struct Slot {
    std::uint32_t task = kIdle;
    double remaining = 0, rate = 1, updated = 0, finish = 0;  // in ns alone; 1: as if alone
  };

  RunningTasks(const graph::Graph& graph, const cost::TaskCosts& costs, const PolicyOptions& options,
               std::span<const plan::Stream> streams);

  void reset();
  std::size_t streams() const { return slots_.size(); }
  bool idle(std::size_t stream) const { return slots_[stream].task == kIdle; }
  std::uint32_t task(std::size_t stream) const { return slots_[stream].task; }
  double finish(std::size_t stream) const { return slots_[stream].finish; }

  void start(std::size_t stream, std::uint32_t task, double now);
  /// Ends the stream's running task and returns it.
  std::uint32_t end(std::size_t stream);
  /// Sets the rates of the running tasks.
  void settle(double now);
  /// The next time at which a task ends; infinity when nothing runs.
  double next() const;
  /// The time that the stream's running task would still take alone.
  double remaining(std::size_t stream, double now) const {
    const Slot& slot = slots_[stream];
    return std::max(0.0, slot.remaining - slot.rate * (now - slot.updated));
  }

  /// For searches that come back to an earlier state.
  std::span<const Slot> state() const { return slots_; }
  void restore(std::span<const Slot> state) { std::ranges::copy(state, slots_.begin()); }

 private:
  enum class Directions : std::uint8_t { both, out, in };  // of a link

  void use_link(std::size_t stream, double use);
  double link_rate(std::size_t stream, double use) const;
  bool communicates(std::size_t stream) const { return slots_[stream].task != kIdle && !local_[stream]; }
  double slowdown(std::uint32_t computation) const;
  static void set_rate(Slot& slot, double rate, double now);

  std::vector<double> cost_, cores_;    // by task; the cores that a collective's transport takes
  std::vector<double> use_;             // by task: the part of its link that a collective uses alone
  std::vector<double> beside_;          // by task: the rate of a collective while computations run
  std::vector<std::size_t> link_;       // by stream; of communication streams
  std::vector<Directions> directions_;  // by stream
  std::size_t links_ = 0;               // each twice in on_link_ if there are messages: out, then in
  bool has_messages_ = false;
  std::size_t computes_ = 0;  // streams of computations, which come first
  std::vector<bool> local_;   // by stream: neither computes nor communicates
  cost::KindSlowdowns slowdowns_;
  bool contends_ = false, shared_cores_ = false;
  double machine_cores_ = 1;
  std::vector<Slot> slots_;
  cost::LinkShares on_link_{0};
};

}  // namespace weft::policy
