// The measurements of `weft profile`: tasks of serial steps, and how collectives and computations slow each other down.
#pragma once

#include <vector>

#include "base/status_line.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/profile.h"
#include "train/config/config.h"
#include "train/measure/policy_benchmark.h"

namespace weft::train {

/// Times of tasks from steps of policy `serial`, in which every task is alone: of a benchmark, or, where ranks would
/// wait for each other's messages, of StageComputations, whose messages and collectives take no time. All calls are
/// collective over the world.
///
///   SerialSamples samples(world);
///   while (…) samples.run(benchmark, serial);
///   samples.write(benchmark.plan(serial), profile);
class SerialSamples {
 public:
  explicit SerialSamples(comm::World& world) : world_(world) {}

  /// One step; returns its nanoseconds: of the benchmark's policy, which is `serial`, those of the slowest rank; of a
  /// stage their mean over the ranks.
  double run(PolicyBenchmark& benchmark, std::size_t policy);
  double run(StageComputations& stage);

  /// Into the profile: entries with the samples' times on all ranks, and the factor on computations. Keeps the
  /// profile's data about collectives beside computations, and its entries of tasks that have no samples. `plan` is
  /// this rank's.
  void write(const plan::Plan& plan, cost::Profile& profile) const;

 private:
  comm::World& world_;
  cost::ProfileSamples samples_;
  std::vector<double> step_ns_;
  bool communicates_ = true;  // in its steps
};

/// Runs `steps` steps of policy `serial`, and each collective apart from them: alone, beside a matrix product, and the
/// longest of each kind beside every kind of computation that matters in the step. Where the step has messages, its
/// steps are those of StageComputations. Every rank gets the same profile. Calls `tell` on rank 0 with the progress.
/// Collective over the world.
cost::Profile measure_profile(comm::World& world, const ResolvedRun& run, int steps, int rounds,
                              const TellStatus& tell);

}  // namespace weft::train
