// What a collective takes from the computations beside it, and they from it: measured, since no trace tells.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "graph/graph.h"
#include "kernels/cpu/parallel.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/cpu/cpu_kernels.h"

namespace weft::execute {

/// Something for collectives to run beside: a task that can be repeated, on `threads` threads, over memory of its own
/// that is zero at first.
///
///   ProbeComputation product = ProbeComputation::product(1);
///   const CollectiveTimes times = probe_collective(world, group, call, product, 9);
class ProbeComputation {
 public:
  ProbeComputation(const graph::Graph& graph, const graph::Task& task, int threads);
  /// A matrix product of a millisecond or two: how seldom it lets a transport go on, and what they evict of each
  /// other's from the caches, are what they are in most of a step.
  static ProbeComputation product(int threads);

  void run() { task_->run(*workers_); }
  void set_progress_hook(std::function<void()> hook) { workers_->set_progress_hook(std::move(hook)); }

 private:
  ProbeComputation() = default;
  void prepare(const graph::Operation& operation, std::vector<cpu::Matrix> arguments, int threads);

  std::vector<Buffer> memory_;
  std::unique_ptr<cpu::Workers> workers_;
  std::optional<PreparedTask> task_;
};

/// Of one collective, in nanoseconds; those of the slowest member.
struct CollectiveTimes {
  double alone = 0;     // from when all members have started it
  double beside = 0;    // beside a computation that calls progress() as the executor does
  double slows_by = 0;  // how much longer that computation takes
};

/// Medians of `rounds` rounds (`slows_by` is a difference of least times), each of which runs the collective alone,
/// beside repetitions of the computation that last about 1.5 times as long, and these alone. Collective over the world,
/// which every group of `channel` takes part in at once; the buffers are the communicator's to overwrite.
CollectiveTimes probe_collective(comm::World& world, comm::Communicator& group, const comm::CollectiveCall& call,
                                 ProbeComputation& computation, int rounds);

/// How many times as long a computation takes beside a collective (`task`) as the cores that its transport takes
/// explain, which were measured beside `product`: at least 1, and 1 where the difference may be the clocks' noise.
double slowdown_factor(const CollectiveTimes& product, const CollectiveTimes& task);

}  // namespace weft::execute
