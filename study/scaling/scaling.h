// A scaling study: the total arithmetic a second over the number of ranks, each point at its best configuration or at a
// given one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "study/experiment.h"
#include "study/search/search.h"
#include "train/config/config.h"

namespace weft::study {

/// strong: the global batch stays; weak: it grows with the ranks.
enum class ScalingKind : std::uint8_t { strong, weak };

/// A number of ranks, and perhaps the model that runs on them or the file of a whole configuration.
struct ScalingPoint {
  std::int64_t ranks = 1;
  std::string model = {}, file = {};  // one of them at most
  friend bool operator==(const ScalingPoint&, const ScalingPoint&) = default;
};

/// Of "512", "512:gpt-5b" or "512:best.toml". Throws UserError.
ScalingPoint scaling_point(std::string_view text);

struct ScalingStudy {
  train::RunConfig base;                 // of the file alone, not resolved
  std::vector<train::Setting> settings;  // of the command line
  ScalingKind kind = ScalingKind::strong;
  std::vector<ScalingPoint> points;
  std::vector<std::string> machines, models;  // empty: the configuration's
  /// Each makes a series of its own. Empty: the fastest of the search's policies, and of a file its own.
  std::vector<policy::NamedPolicy> policies;
  SearchOptions search;    // of every point; its ranks and, if there are `policies`, its policies are set
  double noise = 0;        // relative standard deviation of every task's time
  std::int64_t seeds = 1;  // of the noise, from the configuration's seed on
};

/// One point of one series. Without a step it has ranks, model, machine and the reason alone.
struct ScalingRow {
  std::size_t series = 0, point = 0;  // of the study
  std::int64_t ranks = 1;
  std::string model = {}, machine = {}, policy = {};  // the policy that made the plan
  StepSetup setup = {};
  std::int64_t global_batch = 1;
  double step_ms = 0, low_ms = 0, high_ms = 0;  // median over the seeds, 5th and 95th percentile
  double flops = 0;                             // of all ranks, a second: the model's arithmetic without recomputation
  double efficiency = 0;                        // flops a rank, as a share of that of the first point with a step
  double mfu = 0;
  std::int64_t memory_bytes = 0;
  double exposed_ms = 0;    // median
  std::string reason = {};  // "": the step was simulated

  bool possible() const { return reason.empty(); }
};

/// Throws UserError on what is wrong before any search: names and files that can't be read, points that contradict each
/// other or other settings, a batch that can't grow with the ranks.
void check_scaling(const ScalingStudy& study);

/// By series, then by point. A point that no configuration fits becomes a row with the reason. `study` has passed
/// check_scaling().
std::vector<ScalingRow> run_scaling(const ScalingStudy& study, const TellStatus& tell);

/// As CSV a line for each point, without a step with empty figures. As JSON {"kind":"strong","rows":[…]} with the
/// columns of CSV as members, null without a step. As a picture the total arithmetic a second over ranks, both in
/// logarithms: a line for each series, the ideal line from its first point, and intervals over the seeds. Both
/// arguments outlive the results.
Results results_of(const ScalingStudy& study, std::span<const ScalingRow> rows);

}  // namespace weft::study
