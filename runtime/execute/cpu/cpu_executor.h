// Runs plans on the CPU: one thread a compute stream with its workers, collectives progressed while tasks compute.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/execute/channel_groups.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/state.h"

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

/// Makes the executor of one rank. `state` must outlive it. The executor owns its communicators: a failure may leave a
/// collective in flight, and peers may read its buffers until the communicator is destroyed.
///
///   const auto executor = make_cpu_executor(state, CommunicatorSet(world, channels), {.threads = 2});
///   const auto train = executor->load(plan);
///   executor->run(train);                         // one step
///   summarize(*plan, executor->last_trace(train));
std::unique_ptr<Executor> make_cpu_executor(const State& state, CommunicatorSet communicators,
                                            const CpuExecutorOptions& options);

}  // namespace weft::execute
