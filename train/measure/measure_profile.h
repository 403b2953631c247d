// The measurements of `weft profile`: tasks of serial steps, and how collectives and computations slow each other down.
#pragma once

#include <string>
#include <vector>

#include "base/status_line.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/profile.h"
#include "train/config/config.h"
#include "train/measure/policy_benchmark.h"
#include "train/measure/stage_computations.h"

namespace weft::train {

/// Times of tasks from steps of policy `serial`, in which every task is alone. All calls are collective over the world.
///
///   SerialSamples samples(world);
///   while (…) samples.run(benchmark, serial);
///   samples.write(benchmark.plan(serial), profile);
class SerialSamples {
 public:
  explicit SerialSamples(comm::World& world) : world_(world) {}

  /// One step of the benchmark's policy, which is `serial`; returns its nanoseconds.
  double run(PolicyBenchmark& benchmark, std::size_t policy);

  /// Into the profile: entries with the samples' times on all ranks, and the factor on computations. Keeps the
  /// profile's data about collectives beside computations.
  void write(const plan::Plan& plan, cost::Profile& profile) const;

 private:
  comm::World& world_;
  cost::ProfileSamples samples_;
  std::vector<double> step_ns_;
};

/// The same of a pipeline: times of computations from steps in which no stage waits for another. All calls are
/// collective over the world.
///
///   StageSamples samples(world);
///   while (…) samples.run(stage);
///   samples.write(stage.plan(), profile);
class StageSamples {
 public:
  explicit StageSamples(comm::World& world) : world_(world) {}

  /// One step; returns its nanoseconds, the mean over the ranks.
  double run(StageComputations& stage);

  /// Into the profile, whose entries of collectives and messages stay: computations of all ranks, and the factor on
  /// them. `plan` is this rank's.
  void write(const plan::Plan& plan, cost::Profile& profile) const;

 private:
  comm::World& world_;
  cost::ProfileSamples samples_;
  std::vector<double> step_ns_;
};

/// Runs `steps` steps of policy `serial`, and each collective apart from them: alone, beside a matrix product, and the
/// longest of each kind beside every kind of computation that matters in the step. Of a pipeline the steps are those of
/// StageComputations, and messages are probed too. Every rank gets the same profile. Calls `tell` on rank 0 with the
/// progress. Collective over the world.
cost::Profile measure_profile(comm::World& world, const ResolvedRun& run, int steps, int rounds,
                              const TellStatus& tell);

}  // namespace weft::train
