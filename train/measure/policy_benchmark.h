// Runs one training step under several policies, for profiles and measured comparisons.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/sharding.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/program/program.h"
#include "runtime/policy/catalog/policies.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// A rank's program that holds the training graph once for each policy, over one state with initial weights and random
/// tokens. Making it and running steps is collective over the world.
///
///   PolicyBenchmark benchmark(world, run, {named_policy("serial"), run.policy});
///   for (int round = 0; round < 20; ++round)
///     for (std::size_t p = 0; p < benchmark.policies(); ++p) ms[p].push_back(benchmark.run(p) * 1e-6);
class PolicyBenchmark {
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
  comm::World& world_;
  const ResolvedRun run_;
  const graph::Coordinates at_;
  const std::vector<ops::ParameterSpec> specs_;
  const std::vector<ops::ParameterShard> shards_;
  std::vector<std::string> names_;  // of the program's graphs, by policy
  std::unique_ptr<execute::Program> program_;
  std::int64_t step_ = 0;
};

}  // namespace weft::train
