// One training step under several policies, run for real: what profiles and measured comparisons are made with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/sharding.h"
#include "runtime/collective_probe.h"
#include "runtime/comm/communicator.h"
#include "runtime/profile.h"
#include "runtime/program.h"
#include "train/config.h"

namespace weft {

/// A rank's program that holds the training graph once for each policy, over one state with initial weights and random
/// tokens. Making it and running steps is collective over the world.
///
///   StepLab lab(world, config, {"serial", "program"});
///   for (int round = 0; round < 20; ++round)
///     for (std::size_t p = 0; p < lab.policies(); ++p) ms[p].push_back(lab.run(p) * 1e-6);
class StepLab {
 public:
  /// `config` is resolved.
  StepLab(World& world, const RunConfig& config, const std::vector<std::string>& policies,
          const PolicyOptions& options = {});

  std::size_t policies() const { return names_.size(); }

  /// One step, in which the weights are trained. Returns nanoseconds from the moment when all ranks were there to the
  /// end of the slowest one.
  double run(std::size_t policy);

  const Plan& plan(std::size_t policy) const { return program_->plan(names_[policy]); }
  const StepTrace& last_trace(std::size_t policy) const { return program_->last_trace(names_[policy]); }

  /// Initial weights again, optimizer state zero, as when it was made.
  void reset();
  /// Hash of parameters and optimizer state, fp32 copies included, on all ranks: equal on each of them.
  std::uint64_t fingerprint() const;

  /// What the collectives of a policy's plan take, measured apart from the step: one entry for each signature.
  struct ProbedCollective {
    std::string signature;
    CollectiveTimes times;
  };
  std::vector<ProbedCollective> probe(std::size_t policy, int rounds,
                                      const std::function<void(const std::string&)>& tell);

 private:
  World& world_;
  const RunConfig config_;
  const Coordinates at_;
  const std::vector<ParameterSpec> specs_;
  const std::vector<ParameterShard> shards_;
  std::vector<std::string> names_;  // of the program's graphs, by policy
  std::unique_ptr<Program> program_;
  std::int64_t step_ = 0;
};

/// Times of tasks from steps of policy `serial`, in which every task is alone. All calls are collective over the world.
///
///   SerialSamples samples(world);
///   while (…) samples.run(lab, serial);
///   samples.write(lab.plan(serial), profile);
class SerialSamples {
 public:
  explicit SerialSamples(World& world) : world_(world) {}

  /// One step of the lab's policy, which is `serial`; returns its nanoseconds.
  double run(StepLab& lab, std::size_t policy);

  /// Into the profile: entries with the samples' times on all ranks, and the factor on computations. What the profile
  /// knows of collectives beside computations stays.
  void write(const Plan& plan, Profile& profile) const;

 private:
  World& world_;
  ProfileSamples samples_;
  std::vector<double> step_ns_;
};

/// Runs `steps` steps of policy `serial` and probes the collectives. Every rank gets the
/// same profile. `tell` is called on rank 0 with a line about what is being done. Collective over the world.
Profile measure_profile(World& world, const RunConfig& config, int steps, int rounds,
                        const std::function<void(const std::string&)>& tell);

}  // namespace weft
