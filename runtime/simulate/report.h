// The result of one policy on a step: the plans of its rank classes, the simulation of them together, and lower bounds
// for any policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/grid.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/plan/trace.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/bounds.h"
#include "runtime/simulate/class_times.h"
#include "runtime/simulate/simulator.h"

namespace weft::simulate {

/// The graphs of a step's rank classes and the inputs of the policies that order them.
struct Problem {
  std::vector<std::shared_ptr<const graph::Graph>> classes;  // of a pipeline by its rank; one without
  cost::Machine machine;
  graph::Grid grid;
  policy::PolicyOptions options;        // with a cost model
  std::vector<plan::Rewrite> rewrites;  // chosen by the user
  SimulationOptions simulation{};       // simulation_options() fills in grid and links

  const graph::Graph& first() const { return *classes.front(); }
};

/// The problem's simulation options, with its grid and links.
SimulationOptions simulation_options(const Problem& problem);

/// Of the ranks of one class; times of the last simulated step.
struct ClassReport {
  std::shared_ptr<const plan::Plan> plan;
  std::vector<plan::Rewrite> rewrites;  // all that the plan's graph has
  /// How the policy joined or split messages, which the user didn't ask for: "bucket=26214400"; "" if it left them.
  std::string messages = {};
  plan::MemoryReport memory = {};
  plan::OverlapSummary overlap = {};
  std::vector<ChannelTimes> channels = {};
  AloneTimes alone = {};
  ClassTimes times = {};

  const graph::Graph& graph() const { return *plan->graph; }
};

/// Times are in nanoseconds.
struct Report {
  policy::NamedPolicy policy;
  std::string refusal = {};                 // why there are no plans; "" if there are
  std::vector<ClassReport> classes = {};    // of the problem, in its order
  std::vector<cost::TaskCosts> costs = {};  // of the plans' graphs, which may be rewritten
  Simulation simulation = {};
  Bounds bounds = {};  // of the plans' graphs
  double planning_ms = 0;

  bool planned() const { return refusal.empty(); }
  double step_ns() const { return simulation.step_ns; }
  double gap() const;  // how much longer the step is than the best bound, as a share of it
  const ClassReport& first() const { return classes.front(); }
  /// The rank that stands for a class (Simulation::of_class), which must have been traced.
  const SimulatedRank& rank(std::size_t of_class = 0) const;
  const plan::StepTrace& step(std::size_t of_class = 0) const { return rank(of_class).steps.back(); }
  std::vector<const plan::Plan*> plans() const;
  std::vector<std::shared_ptr<const graph::Graph>> graphs() const;  // of the plans
  PlayedClasses played() const;
  std::vector<ClassTimes> times() const;    // by class
  const ClassReport& most_exposed() const;  // the class with most exposed communication
  std::int64_t memory_bytes() const;        // state and scratch of the class that has most
  std::int64_t scratch_bytes() const;       // of the class that has most
  /// The order that was taken because the policy's own takes too much memory: "list schedule in axonn's order"; "" if
  /// it is the policy's own (runtime/policy/builtin/fit_memory.h).
  std::string order_for_memory() const;
  /// plan::rewrites_for_memory() of the first class that has any; "" without a plan.
  std::string rewrites_for_memory() const;
  /// What `exact` proved of the step that was simulated; none of another policy's, such as of a plan file that `exact`
  /// once wrote, and of a step under other costs or with noise.
  plan::Proof proof() const;
};

/// Plans, checks and simulates. An error of the policy or of a check becomes `refusal`.
Report report_plan(const Problem& problem, const policy::NamedPolicy& policy);

/// Simulates the report's plans again, and computes the bounds of their graphs, with the problem's current costs.
void simulate_again(Report& report, const Problem& problem);

/// The bounds of a problem's own graphs, with the rewrites that the user chose and none of a policy's. So they are the
/// same whichever policies are asked. A policy's rewrites may lower them: its report has the bounds of its own graphs.
struct ProblemBounds {
  Bounds bounds;
  AloneTimes alone;  // of the first class
  std::vector<std::shared_ptr<const graph::Graph>> graphs = {};
  std::vector<cost::TaskCosts> costs = {};
};

ProblemBounds bounds_of(const Problem& problem);

struct Disturbance {
  double noise = 0.2;      // relative standard deviation of every task's time
  double slow_rank = 1.2;  // factor on the computations of rank 0
  int draws = 21;          // number of draws of the noise
};

/// Simulated steps in nanoseconds.
struct Robustness {
  double median_ns = 0, p95_ns = 0;  // over the draws of the noise
  double slow_rank_ns = 0;           // without noise
};

/// The robustness of a report's plans: their step times when tasks take other times than
/// planned. The draws use the problem's seed and the following seeds, so plans of one graph
/// get equal noise. Simulates every rank `draws` times. Throws UserError on a disturbance out of range.
Robustness robustness_of(const Report& report, const Problem& problem, const Disturbance& disturbance);

/// The share of the time that could be saved from the serial step that the policy saves: (serial − step) / (serial −
/// bound); 0 if no time could be saved.
double hidden_share(double step_ns, double serial_ns, double bound_ns);

}  // namespace weft::simulate
