// Runs plans on the CPU: one thread a compute stream with its workers, collectives progressed while tasks compute.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/execute/channel_groups.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/state.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::execute {

class GemmTuning;  // runtime/execute/tuning/gemm_tuning.h

struct CpuExecutorOptions {
  int rank = 0;
  int threads = 1;              // workers of each compute stream
  std::int64_t kept_steps = 1;  // number of last steps of each plan whose traces are kept; 0: no tracing
  bool check_finite = false;    // look for NaN and infinity in all tensors that tasks write, except workspaces
  std::shared_ptr<const GemmTuning> gemm_tuning = nullptr;  // null: the default methods
  // Other ranks compute on this rank's cores (shared_cores.h): it looks less often whether a long wait has ended.
  bool shares_cores = false;
};

/// One rank's executor. A stream's completion is a counter: waiting for entry e of stream s means waiting until s has
/// passed e. Compute threads advance the collectives between their tasks, between the slices of a task, and while they
/// wait. No other thread polls, so no core is spent on it.
///
///   CpuExecutor executor(state, CommunicatorSet(world, channels), {.threads = 2});
///   const auto train = executor.load(plan);
///   executor.run(train);                         // one step
///   summarize(*plan, executor.last_trace(train));
///
/// After the first run of a plan nothing is allocated and no lock is taken.
class CpuExecutor final : public Executor {
 public:
  /// `state` must outlive the executor. It owns its communicators, because peers may read the buffers of a collective
  /// that a failure left in flight until its communicator is destroyed.
  CpuExecutor(const State& state, CommunicatorSet communicators, const CpuExecutorOptions& options);
  ~CpuExecutor() override;
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  PlanHandle load(std::shared_ptr<const plan::Plan> plan) override;
  /// Runs the whole step.
  bool start(PlanHandle plan, std::int64_t step) override;
  void finish() override {}
  const plan::StepTrace& last_trace(PlanHandle plan) const override;
  std::int64_t last_step_ns(PlanHandle plan) const override;
  std::vector<plan::StepTrace> traces(PlanHandle plan) const override;
  std::optional<NonFiniteResult> non_finite() const override;

  std::int64_t scratch_bytes() const override;
  ExecutorStatus status() const override;
  std::string describe() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::execute
