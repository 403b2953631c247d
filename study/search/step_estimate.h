// How long a step of many layers and micro-batches takes, and how much memory: estimated from steps of few layers and
// micro-batches that are scheduled.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/plan.h"
#include "study/search/small_steps.h"
#include "study/search/step_needs.h"

namespace weft::study {

/// Lowers up to four small steps. Each layer and each micro-batch more is taken to add the same time and memory. A step
/// as small as these is taken as it is.
class StepEstimate {
 public:
  /// The family must outlive the estimate. `limit`: bytes of state and scratch that a plan may take; 0: any.
  StepEstimate(const StepFamily& family, std::int64_t limit);

  /// State and scratch of a plan that needs little memory: of policy axonn, or of serial order where axonn's exceeds
  /// the limit and serial order's is less.
  std::int64_t estimated_peak_bytes() const { return lean_.total; }

  /// Nanoseconds of the shortest of a few list schedules and, if it fits, of program order, with the grid's axes in
  /// this order. Schedules of a small step may take the scratch of its lean plan, and its layers' share of what the
  /// limit leaves beyond the whole step's lean plan. Without a limit, and where estimated_peak_bytes() exceeds it, they
  /// may take any memory.
  double step_ns(const std::array<graph::Axis, 4>& order) const;

 private:
  struct SmallStep {
    SmallSteps::Size size;
    std::shared_ptr<const graph::Graph> graph;
  };
  struct LeanPlan {
    std::int64_t total = 0;             // of the whole step
    std::vector<std::int64_t> scratch;  // of the small steps
  };
  /// By small step. `whole_bytes`: gets the extrapolated state and scratch of the whole step.
  std::vector<plan::Plan> plans_by(const policy::Policy& policy, std::int64_t& whole_bytes) const;
  LeanPlan lean_plan_by(const policy::Policy& policy) const;
  double program_ns(std::size_t step, const std::array<graph::Axis, 4>& order) const;
  double makespan(std::size_t step, const std::array<graph::Axis, 4>& order, std::int64_t gathers_ahead,
                  bool by_rank) const;

  const StepFamily& family_;
  const std::int64_t limit_;
  const SmallSteps sizes_;
  std::vector<SmallStep> steps_;
  LeanPlan lean_;
  std::vector<plan::Plan> program_;  // by small step, in program order; empty: it takes too much memory
};

}  // namespace weft::study
