// What one policy makes of one graph: its plan, simulated, beside the bounds that no policy can beat.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/plan/trace.h"
#include "runtime/policy/policy.h"
#include "runtime/simulate/bounds.h"
#include "runtime/simulate/simulator.h"

namespace weft::simulate {

/// A graph and what policies may know to order it by.
struct PlanningProblem {
  std::shared_ptr<const graph::Graph> graph;
  cost::Machine machine;
  graph::Grid grid;
  policy::PolicyOptions options;        // with a cost model
  std::vector<plan::Rewrite> rewrites;  // that the user chose
  SimulationOptions simulation{};       // grid and links are filled in
};

/// The problem's, with its grid and links.
SimulationOptions simulation_options(const PlanningProblem& problem);

/// Of one communication stream in a step of one rank, in nanoseconds.
struct ChannelTimes {
  std::string stream;
  double busy_ns = 0, exposed_ns = 0;
};

std::vector<ChannelTimes> channel_times(const plan::Plan& plan, const plan::StepTrace& step);

/// Times in nanoseconds, of rank 0's last simulated step where a rank is meant.
struct PlanReport {
  policy::NamedPolicy policy;
  std::string refusal;  // why there is no plan; "" if there is one
  std::shared_ptr<const plan::Plan> plan;
  cost::TaskCosts costs;  // of the plan's graph, which may be rewritten
  Simulation simulation;
  Bounds bounds;  // of the plan's graph
  plan::OverlapSummary overlap;
  std::vector<ChannelTimes> channels;
  double compute_alone_ns = 0, communication_alone_ns = 0;  // Σ of costs
  std::int64_t memory_bytes = 0;                            // state and scratch
  double planning_ms = 0;

  bool planned() const { return refusal.empty(); }
  double step_ns() const { return simulation.step_ns; }
  double gap() const { return bounds.best() > 0 ? step_ns() / bounds.best() - 1 : 0; }
  const plan::StepTrace& step() const { return simulation.ranks.front().steps.back(); }
};

/// Plans, checks and simulates. What the policy or the checker refuses becomes `refusal`.
PlanReport report_plan(const PlanningProblem& problem, const policy::NamedPolicy& policy);

/// Simulates the plan that a report has, and bounds its graph, with the costs that the problem has now.
void simulate_again(PlanReport& report, const PlanningProblem& problem);

/// The least bound of all graphs that policies tried: rewrites may lower it.
double least_bound(std::span<const PlanReport> reports);

/// Of what could have been hidden by the best plan that the bound allows, how much was: (serial − step) / (serial −
/// bound); 0 where nothing could be.
double hidden_share(double step_ns, double serial_ns, double bound_ns);

}  // namespace weft::simulate
