// Toy graphs with a price on every task, and reports on plans of them that a test orders by hand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/simulate/plan_report.h"
#include "tests/runtime/toy_graph.h"

namespace weft::testing {

/// Nanoseconds by a task's name; of others `fallback`.
class Prices final : public CostModel {
 public:
  explicit Prices(std::map<std::string, double> ns, double fallback = 0) : ns_(std::move(ns)), fallback_(fallback) {}
  TaskCosts costs(const Graph& graph) const override {
    TaskCosts costs;
    for (const Task& task : graph.tasks()) {
      const auto found = ns_.find(task.name);
      costs.ns.push_back(found == ns_.end() ? fallback_ : found->second);
      costs.cpu_ns.push_back(0);
    }
    return costs;
  }
  std::string source() const override { return "a list of prices"; }

 private:
  std::map<std::string, double> ns_;
  double fallback_;
};

/// Two ranks along the data axis; every channel has a link of its own.
inline PlanningProblem problem_of(std::shared_ptr<const Graph> graph, std::map<std::string, double> ns,
                                  double fallback = 0) {
  PlanningProblem problem;
  problem.graph = std::move(graph);
  problem.grid.data = 2;
  problem.options.cost_model = std::make_shared<Prices>(std::move(ns), fallback);
  problem.simulation.link_of_channel = {0, 1, 2, 3, 4, 5};
  return problem;
}

/// Orders nothing else than what was ordered by hand.
class RefusingPolicy final : public Policy {
 public:
  std::string name() const override { return "mine"; }
  Order order(const Graph&, const PolicyOptions&) const override {
    throw UserError("another graph", "the one that was ordered by hand", "");
  }
};

/// As report_plan() makes it, of an order that no policy made.
inline PlanReport report_of(const PlanningProblem& problem, const Order& order) {
  PlanReport report;
  report.policy = {"mine", std::make_shared<const RefusingPolicy>()};
  report.plan = std::make_shared<const Plan>(make_plan(problem.graph, order, report.policy.name));
  report.costs = costs_of(*problem.graph, problem.options);
  SimulationOptions options = problem.simulation;
  options.grid = problem.grid;
  report.simulation = simulate(*report.plan, report.costs, problem.machine, options);
  report.bounds = lower_bounds(*problem.graph, report.costs, problem.machine, problem.options.compute_streams,
                               options.link_of_channel);
  report.overlap = summarize(*report.plan, report.step());
  report.channels = channel_times(*report.plan, report.step());
  return report;
}

}  // namespace weft::testing
