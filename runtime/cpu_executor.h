// Runs plans on the CPU: one thread a compute stream with its workers, collectives progressed while tasks compute.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"
#include "runtime/gemm_tuning.h"
#include "runtime/plan.h"
#include "runtime/state.h"
#include "runtime/trace.h"

namespace weft {

/// The communicators of one rank, by channel; null where the plan's graph has no collective.
class CommunicatorSet {
 public:
  /// One group a channel, by group_color(). Collective over the world: every rank makes the same channels in the same
  /// order.
  CommunicatorSet(World& world, std::span<const Channel> channels, const Grid& grid);
  /// Every group is the world.
  CommunicatorSet(World& world, std::span<const Channel> channels);
  Communicator* on(Channel channel) const { return communicators_[static_cast<std::size_t>(channel)].get(); }

 private:
  CommunicatorSet(World& world, std::span<const Channel> channels, const std::function<std::int64_t(Channel)>& color);
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

struct CpuExecutorOptions {
  int rank = 0;
  int threads = 1;              // workers of each compute stream
  std::int64_t kept_steps = 1;  // traces kept: the last so many steps of each plan; with 0 no time is taken
  bool check_finite = false;    // look for NaN and infinity in all that each task writes, workspaces excepted
  std::shared_ptr<const GemmTuning> gemm_tuning = nullptr;  // null: the default methods
};

/// A task that wrote a NaN or an infinity.
struct NonFiniteResult {
  TaskId task;
  std::string text;  // "task 'L0.mlp.up' wrote a NaN or an infinity to 'L0.mlp.up.out' at [3, 17]"
};

/// Where the streams of a rank stand: what a watchdog compares and reports.
struct ExecutorStatus {
  bool running = false;
  std::uint64_t completed = 0;  // grows with every entry that completes
};

/// One rank's executor. A stream's completion is a counter: waiting for entry e of stream s means waiting until s has
/// passed e. Compute threads advance the collectives between their tasks, between the slices of a task, and while they
/// wait; nothing else does, so no core is spent on polling.
///
///   CpuExecutor executor(state, CommunicatorSet(world, channels), {.threads = 2});
///   const auto train = executor.load(plan);
///   executor.run(train);                         // one step
///   summarize(*plan, executor.last_trace(train));
///
/// After the first run of a plan nothing is allocated and no lock is taken.
class CpuExecutor {
 public:
  using PlanHandle = std::size_t;

  /// `state` must outlive the executor. It owns its communicators, because peers may read the buffers of a collective
  /// that a failure left in flight until its communicator is destroyed.
  CpuExecutor(const State& state, CommunicatorSet communicators, const CpuExecutorOptions& options);
  ~CpuExecutor();
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  /// Resolves every pointer of the plan and prepares its kernels. Plans share one scratch arena, so all loads come
  /// before the first run.
  PlanHandle load(std::shared_ptr<const Plan> plan);

  /// Runs one step and waits for all of its streams, and for its threads even when it throws. `step` is what the trace
  /// is labelled with. Throws PeerLost or RuntimeFault when a collective fails; no run may follow.
  void run(PlanHandle plan, std::int64_t step = 0);

  /// Of the last step that ended well; std::logic_error before the first, and when no steps are kept. Valid until the
  /// plan runs again. Not beside a run.
  const StepTrace& last_trace(PlanHandle plan) const;
  /// The traces kept, oldest first.
  std::vector<StepTrace> traces(PlanHandle plan) const;

  /// With check_finite: of the tasks that wrote a NaN or an infinity in the last run, the first in program order. What
  /// follows it is computed all the same.
  const std::optional<NonFiniteResult>& non_finite() const;

  /// Ends the threads; no run may follow. Destroying the executor does the same.
  void stop();

  /// Bytes of the scratch arena and of kernels' private scratch.
  std::int64_t scratch_bytes() const;

  /// Safe to call from any thread.
  ExecutorStatus status() const;
  /// "rank 1: compute0 waits for data to pass … before …; data: in flight …": safe to call from any thread.
  std::string describe() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
