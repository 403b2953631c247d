// The result of one policy on one graph: its plan, the simulation of it, and lower bounds for any policy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/plan/trace.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/bounds.h"
#include "runtime/simulate/simulator.h"

namespace weft::simulate {

/// A graph and the inputs of the policies that order it.
struct PlanningProblem {
  std::shared_ptr<const graph::Graph> graph;
  cost::Machine machine;
  graph::Grid grid;
  policy::PolicyOptions options;        // with a cost model
  std::vector<plan::Rewrite> rewrites;  // chosen by the user
  SimulationOptions simulation{};       // simulation_options() fills in grid and links
};

/// The problem's simulation options, with its grid and links.
SimulationOptions simulation_options(const PlanningProblem& problem);

/// Times of one communication stream in a step of one rank, in nanoseconds.
struct ChannelTimes {
  std::string stream;
  double busy_ns = 0, exposed_ns = 0;
};

std::vector<ChannelTimes> channel_times(const plan::Plan& plan, const plan::StepTrace& step);

/// Σ of the costs of a graph's computations and of its collectives, in nanoseconds.
struct AloneTimes {
  double compute_ns = 0, communication_ns = 0;
};

AloneTimes alone_times(const graph::Graph& graph, const cost::TaskCosts& costs);

/// Times in nanoseconds, of rank 0's last simulated step if they belong to one rank.
struct PlanReport {
  policy::NamedPolicy policy;
  std::string refusal;  // why there is no plan; "" if there is one
  std::shared_ptr<const plan::Plan> plan;
  std::vector<plan::Rewrite> rewrites;  // all that the plan's graph has
  cost::TaskCosts costs;                // of the plan's graph, which may be rewritten
  Simulation simulation;
  Bounds bounds;  // of the plan's graph
  plan::OverlapSummary overlap;
  std::vector<ChannelTimes> channels;
  AloneTimes alone;
  std::int64_t memory_bytes = 0;  // state and scratch
  double planning_ms = 0;

  bool planned() const { return refusal.empty(); }
  double step_ns() const { return simulation.step_ns; }
  double gap() const;  // how much longer the step is than the best bound, as a share of it
  /// The order that was taken because the policy's own takes too much memory: "list schedule in axonn's order"; "" if
  /// it is the policy's own (runtime/policy/builtin/fit_memory.h).
  std::string order_for_memory() const;
  /// How the policy joined or split messages, which the user didn't ask for: "bucket=26214400"; "" if it left them.
  std::string messages = {};
  /// plan::rewrites_for_memory(); "" without a plan.
  std::string rewrites_for_memory() const { return plan == nullptr ? "" : plan::rewrites_for_memory(*plan); }
  const plan::StepTrace& step() const { return simulation.ranks.front().steps.back(); }
};

/// Plans, checks and simulates. An error of the policy or the checker becomes `refusal`.
PlanReport report_plan(const PlanningProblem& problem, const policy::NamedPolicy& policy);

/// Simulates the report's plan again, and computes the bounds of its graph, with the problem's current costs.
void simulate_again(PlanReport& report, const PlanningProblem& problem);

/// The bounds of a problem's own graph, with the rewrites that the user chose and none of a policy's. So they are the
/// same whichever policies are asked. A policy's rewrites may lower them: its report has the bounds of its own graph.
struct ProblemBounds {
  Bounds bounds;
  AloneTimes alone;
  std::shared_ptr<const graph::Graph> graph = nullptr;
  cost::TaskCosts costs = {};
};

ProblemBounds bounds_of(const PlanningProblem& problem);

/// The share of the time that could be saved from the serial step that the policy saves: (serial − step) / (serial −
/// bound); 0 if no time could be saved.
double hidden_share(double step_ns, double serial_ns, double bound_ns);

}  // namespace weft::simulate
