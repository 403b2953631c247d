// Runs one training step under several policies, for profiles and measured comparisons; and the computations of one
// rank without messages, so that they can be timed without waiting for other ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "ops/sharding.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/machine.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/program/program.h"
#include "runtime/execute/state.h"
#include "runtime/policy/catalog/policies.h"
#include "train/config/config.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// One rank's part of a run: its parameters and the tokens that steps read. Making it sets the unit that multiplies
/// bf16 to the configuration's.
class BenchmarkRank {
 protected:
  /// Collective over the world, which must outlive it.
  BenchmarkRank(comm::World& world, const ResolvedRun& run);

  /// Initial weights, optimizer state zero, random tokens.
  void begin(const execute::State& state);

  comm::World& world_;
  const ResolvedRun run_;
  const graph::Coordinates at_;
  const std::vector<ops::ParameterSpec> specs_;
  const std::vector<ops::ParameterShard> shards_;
  std::int64_t step_ = 0;
};

/// A rank's program that holds the training graph once for each policy, over one state with initial weights and random
/// tokens. Making it and running steps is collective over the world.
///
///   PolicyBenchmark benchmark(world, run, {named_policy("serial"), run.policy});
///   for (int round = 0; round < 20; ++round)
///     for (std::size_t p = 0; p < benchmark.policies(); ++p) ms[p].push_back(benchmark.run(p) * 1e-6);
class PolicyBenchmark : BenchmarkRank {
 public:
  PolicyBenchmark(comm::World& world, const ResolvedRun& run, const std::vector<policy::NamedPolicy>& policies,
                  const policy::PolicyOptions& options = {});

  std::size_t policies() const { return names_.size(); }

  /// Runs one step, which trains the weights. Returns the nanoseconds from the start after a barrier to the end of the
  /// slowest rank.
  double run(std::size_t policy);

  const plan::Plan& plan(std::size_t policy) const { return program_->plan(names_[policy]); }
  const plan::StepTrace& last_trace(std::size_t policy) const { return program_->last_trace(names_[policy]); }

  /// Initial weights again, optimizer state zero, as when it was made.
  void reset();
  /// Hash of parameters and optimizer state, fp32 copies included, on all ranks: equal on each of them.
  std::uint64_t fingerprint() const;

 private:
  std::vector<std::string> names_;  // of the program's graphs, by policy
  std::unique_ptr<execute::Program> program_;
};

/// A rank's own stage on the CPU, under policy `serial`, with messages and collectives that move nothing. So values
/// mean nothing, and times do. Steps are collective over the world: all ranks compute at once, as in a pipeline, and
/// ranks that share cores take turns.
///
///   StageComputations stage(world, run);
///   for (int step = 0; step < 10; ++step) stage.run(), samples.add(stage.plan(), stage.last_trace());
class StageComputations : BenchmarkRank {
 public:
  StageComputations(comm::World& world, const ResolvedRun& run);

  /// One step of each rank. Returns the nanoseconds of this rank's own.
  double run();

  const plan::Plan& plan() const { return *plan_; }
  const plan::StepTrace& last_trace() const { return executor_->last_trace(loaded_); }
  const std::vector<cost::CorePool>& core_pools() const { return pools_; }

 private:
  const std::vector<cost::CorePool> pools_;
  std::shared_ptr<const plan::Plan> plan_;
  std::unique_ptr<execute::State> state_;  // outlives the executor
  std::unique_ptr<execute::Executor> executor_;
  execute::Executor::PlanHandle loaded_ = 0;
};

}  // namespace weft::train
