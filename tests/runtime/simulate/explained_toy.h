// Steps to explain: graphs small enough to simulate by hand, with times in microseconds, and queries of an explanation.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/simulate/explain.h"
#include "tests/runtime/plan/rewrites/rewrite_toy.h"
#include "tests/runtime/priced_toy.h"

namespace weft::testing {

inline constexpr double kUs = 1000;

inline std::map<std::string, double> us(std::map<std::string, double> prices) {
  for (auto& [name, ns] : prices) ns *= kUs;
  return prices;
}

inline const simulate::ExplainOptions kNoRewrites{"", 1000, 8, false};

inline const simulate::ExposedCollective& found(const simulate::Explanation& explanation, const graph::Graph& graph,
                                                const std::string& task) {
  for (const simulate::ExposedCollective& exposed : explanation.collectives) {
    if (graph.task(exposed.task).name == task) return exposed;
  }
  ADD_FAILURE() << task << " isn't exposed";
  return explanation.collectives.front();
}

/// The group of a collective.
inline const simulate::ExposureGroup& group_of(const simulate::Explanation& explanation, const graph::Graph& graph,
                                               const std::string& task) {
  for (const simulate::ExposureGroup& group : explanation.groups) {
    for (const std::size_t i : group.members) {
      if (graph.task(explanation.collectives[i].task).name == task) return group;
    }
  }
  ADD_FAILURE() << task << " is in no group";
  return explanation.groups.front();
}

/// "kind: gain" of every remedy of a collective's group, in microseconds.
inline std::vector<std::string> remedies_of(const simulate::Explanation& explanation, const graph::Graph& graph,
                                            const std::string& task) {
  std::vector<std::string> remedies;
  for (const simulate::Remedy& remedy : group_of(explanation, graph, task).remedies) {
    remedies.push_back(std::string(identifier_of(remedy.kind)) + ": " +
                       std::to_string(std::lround(remedy.gain_ns / kUs)));
  }
  return remedies;
}

/// The remedy of a kind that a collective's group has.
inline const simulate::Remedy& remedy_of(const simulate::Explanation& explanation, const graph::Graph& graph,
                                         const std::string& task, simulate::RemedyKind kind) {
  for (const simulate::Remedy& remedy : group_of(explanation, graph, task).remedies) {
    if (remedy.kind == kind) return remedy;
  }
  ADD_FAILURE() << task << " has no remedy " << identifier_of(kind);
  static const simulate::Remedy none;
  return none;
}

/// The sum of a path's pieces must be the step's time.
inline void expect_whole(const simulate::Explanation& explanation, const simulate::PlanReport& report) {
  double sum = 0;
  for (const simulate::PathPiece& piece : explanation.path) sum += piece.ns;
  EXPECT_NEAR(sum, report.step_ns(), 1);
}

/// Five all-reduces that each cost 10 µs whatever their size: one bucket costs 10 for all.
inline simulate::PlanningProblem five_reductions() {
  ReductionToy toy;
  std::vector<graph::Access> reads;
  for (const std::string i : {"0", "1", "2", "3", "4"}) {
    const graph::View g = toy.tensor("g" + i, 16);
    toy.compute("a" + i, {graph::write(g)});
    reads.push_back(graph::read(g));
  }
  for (int i = 0; i < 5; ++i) toy.reduce("r" + std::to_string(i), reads[static_cast<std::size_t>(i)].view);
  toy.compute("b", std::move(reads));
  return problem_of(toy.build(), {}, 10 * kUs);
}

/// Per layer and micro-batch a computation, a collective of its result, and a computation that waits for that; at last
/// the same without number.
struct Layers {
  Layers() {
    ToyGraph toy;
    std::map<std::string, double> prices;
    std::vector<std::pair<std::string, std::string>> order;
    for (const std::string mb : {"mb0", "mb1"}) {
      for (const std::string layer : {"L0", "L1", "L11"}) {
        const std::string name = mb + "." + layer + ".up";
        const graph::View p = toy.tensor(name, 8);
        toy.compute(name, {graph::write(p)});
        toy.collective(name + ".reduce", graph::Channel::data, {graph::read_write(p)});
        toy.compute(name + ".use", {graph::read(p)});
        prices[name] = prices[name + ".use"] = 1;
        prices[name + ".reduce"] = layer == "L1" && mb == "mb1" ? 9 : 4;
        order.insert(order.end(), {{name, "compute0"}, {name + ".reduce", "data"}, {name + ".use", "compute0"}});
      }
    }
    const graph::View n = toy.tensor("n", 8);
    toy.compute("L2norm", {graph::write(n)});
    toy.collective("L2norm.reduce", graph::Channel::x, {graph::read_write(n)});
    toy.compute("L2norm.use", {graph::read(n)});
    prices["L2norm"] = prices["L2norm.use"] = 1;
    prices["L2norm.reduce"] = 50;
    order.insert(order.end(), {{"L2norm", "compute0"}, {"L2norm.reduce", "x"}, {"L2norm.use", "compute0"}});
    graph = toy.build();
    problem = problem_of(graph, us(prices));
    problem.grid.x = 2;
    report = report_of(problem, order_of(*graph, 1, order));
  }
  std::shared_ptr<const graph::Graph> graph;
  simulate::PlanningProblem problem;
  simulate::PlanReport report;
};

}  // namespace weft::testing
