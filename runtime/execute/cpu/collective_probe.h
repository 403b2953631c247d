// Measures how collectives and the computations beside them slow each other down, which traces don't show.
#pragma once

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

/// A computation that is timed alone or runs beside collectives: a repeatable task by the kernel that the executor
/// calls, on `threads` threads, with its own memory. Floats are small numbers of both signs, integers are zero.
///
///   ProbeComputation product = ProbeComputation::product(1);
///   const CollectiveTimes times = probe_collective(world, group, call, product, 9);
class ProbeComputation {
 public:
  ProbeComputation(const graph::Graph& graph, const graph::Task& task, int threads);
  /// A matrix product of one or two milliseconds. It lets a transport progress as rarely, and competes for the caches
  /// as much, as most of a step does.
  static ProbeComputation product(int threads);

  void run() { task_->run(*workers_); }
  void set_progress_hook(std::function<void()> hook) { workers_->set_progress_hook(std::move(hook)); }

 private:
  std::vector<Buffer> memory_;
  std::unique_ptr<cpu::Workers> workers_;
  std::optional<PreparedTask> task_;
};

/// Times of one collective in nanoseconds, those of the slowest member.
struct CollectiveTimes {
  double alone = 0;         // from the moment when all members have started it
  double beside = 0;        // beside a computation that calls progress() as the executor does
  double slows_by = 0;      // how much longer that computation takes
  double own_slows_by = 0;  // the same on this rank
};

/// Medians of `rounds` rounds (`slows_by` is a difference of least times), each of which runs the collective alone,
/// beside repetitions of the computation that last about 1.5 times as long, and these alone. Collective over the world,
/// in which every group of the channel takes part at once; the buffers are overwritten. `group`: null on ranks that
/// only wait for the others.
CollectiveTimes probe_collective(comm::World& world, comm::Communicator* group, const comm::CollectiveCall& call,
                                 ProbeComputation& computation, int rounds);

/// The factor by which a computation slows down beside a collective (`task`), beyond the effect of the cores that the
/// transport takes (measured beside `product`). At least 1; 1 if the difference may be noise.
double slowdown_factor(const CollectiveTimes& product, const CollectiveTimes& task);

}  // namespace weft::execute
