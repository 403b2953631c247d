// The time and the memory of a training step of many layers and micro-batches: bounds on them from graphs of one and
// two, and estimates from steps of few that are scheduled, because layers and micro-batches are identical.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/catalog/policies.h"
#include "study/search/step_setup.h"
#include "train/config/resolved_run.h"

namespace weft::study {

/// The sizes of small steps, from which a large one is extrapolated: two numbers of layers and two of micro-batches;
/// one where the step has no more.
///
///   StepSizes sizes(96, 8);
///   for (const auto& [layers, micro_batches] : sizes.all()) values.push_back(measure(layers, micro_batches));
///   const double whole = sizes.extrapolated(values);
class StepSizes {
 public:
  struct Size {
    std::int64_t layers = 1, micro_batches = 1;
  };
  using Pair = std::array<std::int64_t, 2>;  // few and more

  /// In fewer layers than three the first and the last, which have less to overlap with, weigh too much.
  StepSizes(std::int64_t layers, std::int64_t micro_batches, const Pair& of_layers = {3, 5},
            const Pair& of_micro_batches = {2, 5});
  /// Of a step of which every layer and every micro-batch after the first adds exactly the same.
  static StepSizes exact(std::int64_t layers, std::int64_t micro_batches) {
    StepSizes sizes(layers, micro_batches);
    sizes.of_layers_ = {1, std::min<std::int64_t>(2, layers)};
    sizes.of_micro_batches_ = {1, std::min<std::int64_t>(2, micro_batches)};
    return sizes;
  }

  /// By micro-batches, then by layers.
  std::vector<Size> all() const;
  /// The whole step's value: each layer and each micro-batch more is taken to add the same. `values`: by size.
  double extrapolated(const std::vector<double>& values) const;

 private:
  std::int64_t layers_, micro_batches_;  // of the whole step
  Pair of_layers_, of_micro_batches_;    // equal: all that the step has
};

/// The run with so many layers and micro-batches. `run` is of one setup.
train::ResolvedRun small_run(train::ResolvedRun run, const StepSizes::Size& size);

/// Lower bounds for every plan of a step, and the sums of which they are made.
struct StepNeeds {
  double least_ns = 0;           // of a step
  std::int64_t least_bytes = 0;  // of state, and of what has to be kept at the end of a forward pass
  std::int64_t tasks = 0;        // of a rank's graph; of a pipeline, of all its ranks together
  double compute_ns = 0;         // Σ of the computations alone
  std::array<double, graph::kAxisChannels> sent_ns{};  // by channel: Σ of its collectives alone
};

/// Bounds of one setup, whose axes may be ordered in any way. Of several rank classes all layers are counted on the
/// ranks of one, with groups of ranks as they lie in the setup's grid: a bound is the mean over the classes.
class StepBounds {
 public:
  /// `run` is filled in, but for its grid and its micro-batch. Lowers up to four small graphs.
  StepBounds(const train::ResolvedRun& run, const StepSetup& setup);

  /// With the grid's axes in this order.
  StepNeeds needs(const AxisOrder& order) const;

  /// The step by a single list schedule of the small graphs, under no memory limit: near enough to tell which setups
  /// are worth an estimate. Not of pipelines.
  double skimmed_ns(const AxisOrder& order) const;

 private:
  train::ResolvedRun run_;  // of the setup
  StepSizes sizes_;
  std::vector<std::shared_ptr<const graph::Graph>> graphs_;  // by size
  std::shared_ptr<const graph::Graph> kinds_;                // one task of each signature
  std::vector<std::vector<double>> counts_;  // by task of kinds_: how many a small step has of its signature
  std::vector<double> state_bytes_, kept_bytes_;
};

struct EstimatedStep {
  double ns = std::numeric_limits<double>::infinity();
  std::int64_t bytes = 0;
};

/// Plans and simulates steps of these sizes by a policy, under no memory limit. nullopt if it can't order them.
std::optional<EstimatedStep> step_by(const policy::NamedPolicy& policy, train::ResolvedRun run, const StepSizes& sizes);

/// Estimates of one setup. Each layer and each micro-batch more is taken to add the same time and memory. A step as
/// small as the steps that are scheduled is taken as it is.
class StepEstimate {
 public:
  /// `run` is filled in, but for its grid and its micro-batch. `limit`: bytes that a plan may take; 0: any.
  /// `policies`: they order steps of one and two layers a stage, and of two and three micro-batches a rank, in which
  /// every stage has as many layers as the longest. Without any, list schedules order steps of a single rank class,
  /// in a fraction of a policy's time. The policies must outlive the object.
  StepEstimate(const train::ResolvedRun& run, const StepSetup& setup, std::span<const policy::NamedPolicy> policies,
               std::int64_t limit);

  /// State and scratch of a plan that needs little memory: of policy axonn, or of serial order where axonn's exceeds
  /// the limit and serial order's is less. 0 where policies order the step.
  std::int64_t least_bytes() const { return lean_.total; }

  /// The shortest step that takes at most the limit, with the grid's axes in this order; if all take more, the one that
  /// takes the least. nullopt if no policy orders it.
  ///
  /// List schedules, and program order if it fits, count as if they took least_bytes(). Those of a small step may take
  /// the scratch of its lean plan, and its layers' share of what the limit leaves beyond the whole step's lean plan.
  /// `is_late`: whether the policies that are left needn't order it.
  std::optional<EstimatedStep> best(const AxisOrder& order, const std::function<bool()>& is_late = {}) const;

 private:
  struct SmallStep {
    StepSizes::Size size;
    std::shared_ptr<const graph::Graph> graph;
  };
  struct LeanPlan {
    std::int64_t total = 0;             // of the whole step
    std::vector<std::int64_t> scratch;  // of the small steps
  };
  train::ResolvedRun run_of(const StepSizes::Size& size, const AxisOrder& order) const;
  std::optional<EstimatedStep> step_by(const policy::NamedPolicy& policy, const AxisOrder& order) const;
  /// By small step. `whole_bytes`: gets the extrapolated state and scratch of the whole step.
  std::vector<plan::Plan> plans_by(const policy::Policy& policy, std::int64_t& whole_bytes) const;
  LeanPlan lean_plan_by(const policy::Policy& policy) const;
  double program_ns(std::size_t step, const AxisOrder& order) const;
  double makespan(std::size_t step, const AxisOrder& order, std::int64_t gathers_ahead, bool by_rank) const;

  train::ResolvedRun run_;  // of the setup
  std::span<const policy::NamedPolicy> policies_;
  std::int64_t limit_;
  StepSizes sizes_;  // of list schedules
  std::vector<SmallStep> steps_;
  LeanPlan lean_;
  std::vector<plan::Plan> program_;  // by small step, in program order; empty: it takes too much memory
};

}  // namespace weft::study
