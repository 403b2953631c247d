// The result of one policy on a pipeline: plans of all stages, the simulation of them together, and lower bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/intervals.h"
#include "graph/grid.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/memory_report.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/plan/trace.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/bounds.h"
#include "runtime/simulate/simulator.h"

namespace weft::simulate {

/// The graphs of a pipeline's stages and the inputs of the policies that order them.
struct JointProblem {
  std::vector<std::shared_ptr<const graph::Graph>> classes;  // by pipeline rank
  cost::Machine machine;
  graph::Grid grid;                     // of as many stages
  policy::PolicyOptions options;        // with a cost model
  std::vector<plan::Rewrite> rewrites;  // chosen by the user
  SimulationOptions simulation{};       // grid and links are filled in
};

/// The times of one pipeline rank in a step, in nanoseconds. The idle times add up to the bubble: the step without the
/// times at which a computation runs.
struct StageTimes {
  double compute = 0;
  /// Idle until the first backward work begins; after it until the last forward work ends; then until the last backward
  /// work ends; and until the step's end. A rank without forward or backward work has only the last.
  double idle_warm_up = 0, idle_steady = 0, idle_drain = 0, idle_end = 0;
  /// Messages and collectives in flight, from when all their members have arrived; exposed: while no computation runs.
  double communication = 0, exposed = 0;

  double idle() const { return idle_warm_up + idle_steady + idle_drain + idle_end; }
};

/// The last step of the rank that stands for a stage: the stage's index if all ranks of a stage are alike, else the one
/// whose other coordinates are 0, which must have been traced.
const plan::StepTrace& step_of_stage(const Simulation& simulation, std::size_t stage, std::size_t stages,
                                     const graph::Grid& grid);

/// When a task of a communication stream was in flight: from the begin of the last of its members among the stages.
Interval flight_of(std::span<const plan::Plan* const> plans, std::span<const plan::StepTrace* const> steps,
                   std::size_t stage, plan::Position at);

/// By stage, of the plans' last simulated step.
std::vector<StageTimes> stage_times(std::span<const plan::Plan* const> plans,
                                    std::span<const plan::StepTrace* const> steps);

struct JointReport {
  policy::NamedPolicy policy;
  std::string refusal;                                   // why there are no plans; "" if there are
  std::vector<std::shared_ptr<const plan::Plan>> plans;  // this and the following by stage
  std::vector<std::vector<plan::Rewrite>> rewrites;      // all that the plan's graph has
  std::vector<cost::TaskCosts> costs;
  std::vector<StageTimes> times;
  std::vector<plan::MemoryReport> memory;
  Simulation simulation;
  Bounds bounds;  // of the plans' graphs
  graph::Grid grid;
  double planning_ms = 0;

  bool planned() const { return refusal.empty(); }
  double step_ns() const { return simulation.step_ns; }
  double gap() const;  // how much longer the step is than the best bound, as a share of it
  /// Idle time of all stages as a share of their steps.
  double bubble_share() const;
  std::int64_t peak_memory_bytes() const;  // state and scratch of the stage that has most
  const plan::StepTrace& step(std::size_t stage) const { return step_of_stage(simulation, stage, plans.size(), grid); }
  std::vector<const plan::Plan*> plan_pointers() const;
  std::vector<const plan::StepTrace*> steps() const;
};

/// Plans, checks each plan and all together, and simulates. An error of the policy or of a check becomes `refusal`.
JointReport report_together(const JointProblem& problem, const policy::NamedPolicy& policy);

/// Simulates the report's plans again, and computes bounds, with the problem's current costs.
void simulate_again(JointReport& report, const JointProblem& problem);

}  // namespace weft::simulate
