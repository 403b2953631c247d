// Toy graphs with a price on every task, and reports on plans of them that a test orders by hand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/simulate/report.h"
#include "tests/runtime/links.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::testing {

/// Times by names of tasks, and `fallback` of others. Two ranks along the data axis; every channel has a link of its
/// own.
inline simulate::Problem problem_of(std::shared_ptr<const graph::Graph> graph, std::map<std::string, double> ns,
                                    double fallback = 0) {
  simulate::Problem problem;
  problem.classes = {std::move(graph)};
  problem.grid.data = 2;
  problem.options.cost_model = named_costs(std::move(ns), fallback);
  problem.simulation.link_of_channel = own_links();
  return problem;
}

/// A policy that returns an order made by hand.
class RefusingPolicy final : public policy::Policy {
 public:
  std::string name() const override { return "mine"; }
  std::vector<plan::Order> orders(graph::Classes, const policy::PolicyOptions&) const override {
    throw UserError("another graph", "the one that was ordered by hand", "");
  }
};

/// As report_plan() makes it, of an order that no policy made.
inline simulate::Report report_of(const simulate::Problem& problem, const plan::Order& order) {
  simulate::Report report;
  report.policy = {"mine", std::make_shared<const RefusingPolicy>()};
  const auto plan =
      std::make_shared<const plan::Plan>(plan::make_plan(problem.classes.front(), order, report.policy.name));
  report.classes.push_back({.plan = plan, .rewrites = {}, .memory = plan::memory_report(*plan)});
  simulate::simulate_again(report, problem);
  return report;
}

}  // namespace weft::testing
