// What tasks took on this machine, by signature, and the cost model made of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::cost {

/// One kind of task with its sizes. Times are those of a task that runs alone.
struct ProfileEntry {
  std::string signature;     // graph/task_signature.h
  double ns = 0;             // mean of the middle half of the samples
  double deviation_ns = 0;   // standard deviation of all samples
  std::int64_t samples = 0;  // over steps, tasks of equal signature and ranks
  double cpu_ns = 0;         // of a collective: core time that it takes from matrix products beside it
  double beside_ns = 0;      // of a collective: how long it takes beside computations; 0: not measured
};

/// Measured on `ranks` ranks of `threads` threads; the costs are equal on all of them.
struct Profile {
  std::string machine;  // the CPU, as the system names it
  graph::Grid grid;
  std::int64_t threads = 1;
  /// What a serial step takes longer than its tasks one after the other (tasks have to be started, and a rank is now
  /// and then interrupted), as a factor on computations.
  double computing_factor = 1;
  std::vector<ProfileEntry> entries;  // by signature, each once
  /// Of kinds of computations that collectives slow down by more than the core time that they take, as where both need
  /// the memory's bandwidth. Each pair of kinds once.
  std::vector<Slowdown> slowdowns;
};

/// Durations of tasks by signature.
///
///   ProfileSamples samples;
///   for (const StepTrace& step : traces) samples.add(plan, step);
class ProfileSamples {
 public:
  /// A collective's time counts from this rank's start, so that over the ranks it holds what they wait for one another:
  /// that hides behind computations as its messages do.
  void add(const plan::Plan& plan, const plan::StepTrace& trace);

  /// Samples in nanoseconds, by signature.
  const std::map<std::string, std::vector<double>>& by_signature() const { return samples_; }

  std::vector<ProfileEntry> entries() const;

 private:
  std::map<std::string, std::vector<double>> samples_;
};

/// Mean of the values between the quartiles: as robust as a median, but sums of it come close to medians of sums.
double middle_mean(std::vector<double> values);

/// Costs of the profile; tasks that it doesn't know cost what `otherwise` says, scaled by how far it is off for known
/// tasks of the same kind (in the median).
std::unique_ptr<const CostModel> profiled_costs(Profile profile, std::shared_ptr<const CostModel> otherwise);

}  // namespace weft::cost
