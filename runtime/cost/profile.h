// Measured times of tasks on this machine, by signature, the files that hold them, and the cost model made of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/grid.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::cost {

/// One kind of task with its sizes. Times are of a task that runs alone.
struct ProfileEntry {
  std::string signature;     // graph/task_signature.h
  double ns = 0;             // mean over a step's tasks of this signature, of that the middle mean over steps
  double deviation_ns = 0;   // standard deviation of all samples
  std::int64_t samples = 0;  // number of samples, over steps, ranks and tasks of this signature
  /// Of a collective, and of each end of a message: core time that it takes from matrix products that run beside it.
  double cpu_ns = 0;
  double beside_ns = 0;  // of a collective: its time beside computations; 0: not measured
};

/// Measurements of the ranks of `grid`, each of `threads` threads, merged into one cost for all ranks. With pipeline
/// stages, a message's time is that of both ends that are ready, and computations were measured without messages.
struct Profile {
  std::string machine;  // the CPU's name from the system
  graph::Grid grid;
  std::int64_t threads = 1;
  /// A factor on computations for the time of a serial step beyond the sum of its tasks: starts of tasks, and
  /// interruptions of a rank.
  double computing_factor = 1;
  std::vector<ProfileEntry> entries;  // by signature, each once
  /// Kinds of computations that a kind of collective slows down by more than the core time that it takes, for example
  /// where both need memory bandwidth. Each pair of kinds occurs once.
  std::vector<Slowdown> slowdowns;
  /// Ranks of a pipeline that have to share cores. The entries' times are of ranks that have theirs for themselves.
  std::vector<CorePool> core_pools;
};

/// Durations of tasks by signature.
///
///   ProfileSamples samples;
///   for (const StepTrace& step : traces) samples.add(plan, step);
class ProfileSamples {
 public:
  /// A collective's time counts from this rank's start. So it includes the ranks' waiting for one another, which
  /// computations can hide as they hide the messages.
  void add(const plan::Plan& plan, const plan::StepTrace& trace);

  std::vector<ProfileEntry> entries() const;

 private:
  struct Samples {
    std::vector<double> tasks, step_means;  // in nanoseconds
  };
  std::map<std::string, Samples> by_signature_;
};

/// Mean of the values between the quartiles: as robust as a median, but a sum of such means is close to the median of
/// sums.
double middle_mean(std::vector<double> values);

/// Costs from the profile. The cost of a task that isn't in it comes from `otherwise`, times a ratio of measured to
/// modelled time. For a collective it is the ratio of the profile's collective nearest in size on the same channel (on
/// any channel, if that one has none); for a computation the median ratio of known tasks of its kind in the graph.
std::unique_ptr<const CostModel> profiled_costs(Profile profile, std::shared_ptr<const CostModel> otherwise);

/// JSON: format "weft-profile", version 2, the members of the profile, an entry a line.
std::string profile_json(const Profile& profile);

/// Reads what profile_json() writes. `name` stands for the file in messages. Throws UserError if a part is missing or
/// implausible: a signature that occurs twice, a time that is negative or infinite.
Profile parse_profile(std::string_view json_text, const std::string& name);

Profile load_profile(const std::string& path);

/// The CPU's name from the system: "AMD EPYC 9B14".
std::string cpu_name();

}  // namespace weft::cost
