// Changes of an order that hide a collective, simulated by hand; times in microseconds.
#include "runtime/simulate/remedies.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/links.h"
#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::found;
using testing::kNoRewrites;
using testing::kUs;
using testing::order_of;
using testing::problem_of;
using testing::remedies_of;
using testing::remedy_of;
using testing::report_of;
using testing::ToyGraph;
using testing::us;

// The predecessors of a collective overtake the queue with it, and the policy's edges that forbid this are dropped.
TEST(Remedies, WhatLeadsToACollectivePassesTheQueueToo) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
  toy.compute("a", {graph::write(p)});
  toy.collective("c1", graph::Channel::data, {graph::read_write(p)});
  toy.compute("x", {graph::write(r)});
  toy.compute("f", {graph::write(q)});
  toy.collective("c2", graph::Channel::data, {graph::read_write(q)});
  toy.compute("b", {graph::read(q)});
  toy.compute("d", {graph::read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem =
      problem_of(graph, us({{"a", 10}, {"c1", 30}, {"x", 2}, {"f", 5}, {"c2", 10}, {"b", 25}, {"d", 4}}));
  plan::Order order = order_of(*graph, 1,
                               {{"a", "compute0"},
                                {"c1", "data"},
                                {"x", "compute0"},
                                {"f", "compute0"},
                                {"c2", "data"},
                                {"b", "compute0"},
                                {"d", "compute0"}});
  order.added_edges.push_back({graph->find_task("x"), graph->find_task("f"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  const PlanReport report = report_of(problem, order);
  ASSERT_EQ(report.step_ns(), 79 * kUs);  // a 10, c1 40, c2 50, b 75, d 79
  const Explanation explanation = explain(problem, report, kNoRewrites);
  EXPECT_EQ(found(explanation, *graph, "c2").cause, ExposureCause::queued);
  // a 10, f 15, c2 25, c1 55; x 17, b 50, d 59
  const Remedy& pass = remedy_of(explanation, *graph, "c2", RemedyKind::pass_queue);
  EXPECT_EQ(pass.gain_ns, 20 * kUs);
  EXPECT_EQ(pass.computations, 1U);
}

// The input that is ready last isn't the last in the sequence.
TEST(Remedies, IssuesBehindAllInputsWhateverTheirOrder) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
  toy.compute("long", {graph::write(p)});
  toy.compute("short", {graph::write(q)});
  toy.compute("d", {graph::write(r)});
  toy.collective("c", graph::Channel::data, {graph::read_write(p), graph::read_write(q)});
  toy.compute("b", {graph::read(p)});
  const auto graph = toy.build();
  PlanningProblem problem = problem_of(graph, us({{"long", 50}, {"short", 10}, {"d", 60}, {"c", 20}, {"b", 5}}));
  problem.options.compute_streams = 2;
  plan::Order order = order_of(
      *graph, 2, {{"long", "compute0"}, {"short", "compute1"}, {"d", "compute0"}, {"c", "data"}, {"b", "compute1"}});
  order.added_edges.push_back({graph->find_task("d"), graph->find_task("c"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  const PlanReport report = report_of(problem, order);
  ASSERT_EQ(report.step_ns(), 135 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  EXPECT_EQ(remedies_of(explanation, *graph, "c").front(), "issue_earlier: 25");
}

/// In each of three layers d holds c back, which could hide while d runs.
struct HeldBackLayers {
  explicit HeldBackLayers(std::int64_t elements = 8) {
    ToyGraph toy;
    std::map<std::string, double> prices;
    std::vector<std::pair<std::string, std::string>> sequence;
    for (const std::string layer : {"L0", "L1", "L2"}) {
      const graph::View p = toy.tensor(layer + ".p", elements), q = toy.tensor(layer + ".q", elements);
      toy.compute(layer + ".a", {graph::write(p)});
      toy.compute(layer + ".d", {graph::write(q)});
      toy.collective(layer + ".c", graph::Channel::data, {graph::read_write(p)});
      toy.compute(layer + ".b", {graph::read(p), graph::read(q)});
      for (const auto& [task, us] : std::map<std::string, double>{{".a", 10}, {".d", 30}, {".c", 20}, {".b", 5}}) {
        prices[layer + task] = us;
      }
      sequence.insert(sequence.end(), {{layer + ".a", "compute0"}, {layer + ".d", "compute0"}, {layer + ".c", "data"}});
      sequence.emplace_back(layer + ".b", "compute0");
    }
    graph = toy.build();
    problem = problem_of(graph, us(prices));
    plan::Order order = order_of(*graph, 1, sequence);
    for (const std::string layer : {"L0", "L1", "L2"}) {
      order.added_edges.push_back({graph->find_task(layer + ".d"), graph->find_task(layer + ".c"),
                                   graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()});
    }
    report = report_of(problem, order);
  }
  std::shared_ptr<const graph::Graph> graph;
  PlanningProblem problem;
  PlanReport report;
};

// Gains are those of all collectives of a group at once, beside that of the worst alone.
TEST(Remedies, OfAGroupAddUp) {
  const HeldBackLayers toy;
  ASSERT_EQ(toy.report.step_ns(), 195 * kUs);
  const Explanation explanation = explain(toy.problem, toy.report, kNoRewrites);
  ASSERT_EQ(explanation.groups.size(), 1U);
  const Remedy& earlier = remedy_of(explanation, *toy.graph, "L1.c", RemedyKind::issue_earlier);
  EXPECT_EQ(earlier.gain_ns, 60 * kUs);
  EXPECT_EQ(earlier.alone_ns, 20 * kUs);
  EXPECT_EQ(earlier.collectives, 3U);
  EXPECT_EQ(earlier.number, 1);
  EXPECT_EQ(explanation.remedy(1), &earlier);
  const Remedy& no_time = remedy_of(explanation, *toy.graph, "L1.c", RemedyKind::no_time);
  EXPECT_EQ(no_time.gain_ns, 60 * kUs);
  EXPECT_EQ(no_time.alone_ns, 20 * kUs);
  EXPECT_EQ(no_time.number, 0);
}

// w is gathered for e. Issued when the step begins it would delay c on their common link; one computation earlier than
// it is, it hides and c isn't in its way.
TEST(Remedies, TryOneStepEarlierToo) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8),
                    w = toy.tensor("w", 8, graph::Role::parameter);
  toy.compute("a", {graph::write(p)});
  toy.collective("c", graph::Channel::x, {graph::read_write(p)});
  toy.compute("b", {graph::read(p), graph::write(q)});
  toy.compute("d", {graph::read(q), graph::write(r)});
  toy.collective("g", graph::Channel::data, {graph::read_write(w)});
  toy.compute("e", {graph::read(w), graph::read(r)});
  const auto graph = toy.build();
  PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c", 20}, {"b", 30}, {"d", 30}, {"g", 25}, {"e", 5}}));
  problem.grid.x = 2;
  problem.simulation.link_of_channel = problem.options.link_of_channel = testing::one_link();
  plan::Order order =
      order_of(*graph, 1,
               {{"a", "compute0"}, {"c", "x"}, {"b", "compute0"}, {"d", "compute0"}, {"g", "data"}, {"e", "compute0"}});
  order.added_edges.push_back({graph->find_task("d"), graph->find_task("g"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  const PlanReport report = report_of(problem, order);
  ASSERT_EQ(report.step_ns(), 120 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  const Remedy& earlier = remedy_of(explanation, *graph, "g", RemedyKind::issue_earlier);
  EXPECT_EQ(earlier.gain_ns, 25 * kUs);
  // Of the moves that gain as much, the smallest: directly before d.
  ASSERT_GE(earlier.moves.size(), 2U);
  EXPECT_EQ(earlier.moves[1], (OrderMove{MoveKind::before, graph->find_task("g"), graph->find_task("d")}));
}

// Two collectives share a link, and c is needed first: e goes when c is done.
TEST(Remedies, LetOtherCommunicationGoFirst) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {graph::write(p), graph::write(q)});
  toy.collective("c", graph::Channel::x, {graph::read_write(p)});
  toy.collective("e", graph::Channel::data, {graph::read_write(q)});
  toy.compute("b", {graph::read(p)});
  toy.compute("d", {graph::read(q)});
  const auto graph = toy.build();
  PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c", 20}, {"e", 20}, {"b", 25}, {"d", 5}}));
  problem.grid.x = 2;
  problem.simulation.link_of_channel = problem.options.link_of_channel = testing::one_link();
  const PlanReport report = report_of(
      problem,
      order_of(*graph, 1, {{"a", "compute0"}, {"c", "x"}, {"e", "data"}, {"b", "compute0"}, {"d", "compute0"}}));
  ASSERT_EQ(report.step_ns(), 80 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  // a 10, c 30, e 50; b 55, d 60
  EXPECT_EQ(remedy_of(explanation, *graph, "c", RemedyKind::issue_later).gain_ns, 20 * kUs);
}

TEST(Remedies, RewritesAreTriedUnderTheSamePolicy) {
  const PlanningProblem problem = testing::five_reductions();
  const PlanReport report = report_plan(problem, policy::named_policy("serial"));
  ASSERT_TRUE(report.planned()) << report.refusal;
  ASSERT_EQ(report.step_ns(), 110 * kUs);
  const Explanation explanation = explain(problem, report, {});
  ASSERT_EQ(explanation.rewrites.size(), 4U);
  EXPECT_EQ(explanation.rewrites[0].what, "bucket=26214400");
  EXPECT_EQ(explanation.rewrites[0].gain_ns, 40 * kUs);
  EXPECT_EQ(explanation.rewrites[1].gain_ns, 0);  // nothing to do, for splits and gathers
  EXPECT_EQ(explanation.rewrites[3].what, "ar-to-rs-ag");
  EXPECT_EQ(explanation.rewrites[3].gain_ns, -50 * kUs);  // two collectives for each
}

}  // namespace
}  // namespace weft::simulate
