// A policy's step: planned and simulated, and perhaps measured; its JSON, the table of its stages, and its picture.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "inspect/drawing/picture.h"
#include "runtime/plan/recording.h"
#include "runtime/simulate/report.h"
#include "train/config/resolved_run.h"

namespace weft::study {

/// Measured steps of one policy, in nanoseconds.
struct MeasuredSteps {
  std::vector<double> ns;                        // empty: nothing was measured
  std::vector<simulate::ClassTimes> times = {};  // by class, of the rank that stands for it: means over the steps
  std::vector<plan::StepTrace> last = {};        // by class, from the step's begin on; or empty

  double median() const { return quantile(0.5); }
  double quantile(double share) const;
};

/// One policy on a step. It decides how many stages a rank of a pipeline has, so each has a problem of its own.
struct PolicyStep {
  std::optional<train::ResolvedRun> run = {};  // nullopt: of a graph file
  simulate::Problem problem = {};
  simulate::Report report = {};
  MeasuredSteps measured = {};
  std::optional<simulate::Robustness> disturbed = {};
  std::string note = {};  // on the step's results: see train::summation_note()

  bool has_stages() const { return report.classes.size() > 1; }
  double tokens_per_second() const;  // 0: of a graph file
};

/// Of nanoseconds.
inline double in_seconds(double ns) {
  return ns * 1e-9;
}

/// Of the class that has most.
double most(std::span<const simulate::ClassTimes> times, double simulate::ClassTimes::*which);

/// Throws UserError if several seeds are to be drawn of no noise.
void expect_noise(double noise, std::int64_t seeds);

/// The plans that no other beats in both memory_bytes and step_ns, by rising memory.
template <class Plan>
std::vector<Plan> pareto_front(std::vector<Plan> plans) {
  std::ranges::stable_sort(plans, {}, [](const Plan& plan) { return std::pair(plan.memory_bytes, plan.step_ns); });
  double best = std::numeric_limits<double>::infinity();
  std::erase_if(plans,
                [&](const Plan& plan) { return plan.step_ns >= std::exchange(best, std::min(best, plan.step_ns)); });
  return plans;
}

/// Each bound, in nanoseconds times `scale`.
JsonObject bounds_json(const simulate::Bounds& bounds, double scale);

/// "critical path 2 ms, work 1 ms, …" of the bounds that are known.
std::string bounds_text(const simulate::Bounds& bounds, const std::function<std::string(double)>& time);

/// Prose whose lines are broken at spaces where they are longer than `width`, if there is a width.
std::string fitted(const std::string& text, std::optional<std::size_t> width);

/// What several stages have besides the figures of any step: micro-batches, layers, bubbles, and each rank's times.
void add_stages(JsonObject& json, const PolicyStep& step);

/// The model, the grid, the step's length and its stages.
void add_step(JsonObject& json, const PolicyStep& step);

/// The times of each class, for `ranks` of add_stages() and of measured steps.
std::vector<JsonObject> times_json(std::span<const simulate::ClassTimes> classes);

/// A row for each stage.
TextTable stages_table(const PolicyStep& step);

/// A class's ranks that were traced. `grid`: of the ranks, if they have one.
plan::Recording recording_of(const simulate::Report& report, const std::optional<graph::Grid>& grid,
                             std::size_t of_class = 0);

/// The steps that were planned, below each other on one time axis: a row a stage as papers draw pipelines, or a row a
/// stream of a single class. Throws UserError if there are none.
inspect::Picture picture_of(std::span<const PolicyStep> steps);

}  // namespace weft::study
