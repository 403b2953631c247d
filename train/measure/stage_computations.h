// Runs the computations of a pipeline's stages without messages, so that each can be timed without waiting for others.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/sharding.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/core_pool.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/execute/state.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// A rank's own stage on the CPU, under policy `serial`, with messages and collectives that move nothing. So values
/// mean nothing, and times do. Steps are collective over the world: all ranks compute at once, as in a pipeline, and
/// ranks that share cores take turns.
///
///   StageComputations stage(world, run);
///   for (int step = 0; step < 10; ++step) stage.run(), samples.add(stage.plan(), stage.last_trace());
class StageComputations {
 public:
  StageComputations(comm::World& world, const ResolvedRun& run);

  /// One step of each rank. Returns the nanoseconds of this rank's own.
  double run();

  const plan::Plan& plan() const { return *plan_; }
  const plan::StepTrace& last_trace() const { return executor_->last_trace(loaded_); }
  const std::vector<cost::CorePool>& core_pools() const { return pools_; }

 private:
  comm::World& world_;
  const ResolvedRun run_;
  const graph::Coordinates at_;
  const std::vector<cost::CorePool> pools_;
  const std::vector<ops::ParameterSpec> specs_;
  const std::vector<ops::ParameterShard> shards_;
  std::shared_ptr<const plan::Plan> plan_;
  std::unique_ptr<execute::State> state_;  // outlives the executor
  std::unique_ptr<execute::CpuExecutor> executor_;
  execute::Executor::PlanHandle loaded_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace weft::train
