// Changes of an order that hide a collective, simulated by hand; times in microseconds.
#include "runtime/simulate/remedies.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/plan/rewrites/rewrite_toy.h"
#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::found;
using testing::kNoRewrites;
using testing::kUs;
using testing::order_of;
using testing::problem_of;
using testing::remedies_of;
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
  const ExposedCollective& c2 = found(explanation, *graph, "c2");
  EXPECT_EQ(c2.cause, ExposureCause::queued);
  // a 10, f 15, c2 25, c1 55; x 17, b 50, d 59
  const std::vector<std::string> remedies = remedies_of(c2);
  EXPECT_EQ(remedies.front(), "issue it before c1: 20");
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
  EXPECT_EQ(remedies_of(found(explanation, *graph, "c")).front(), "issue it as soon as long is done: 25");
}

// Five all-reduces that each cost 10 µs whatever their size: one bucket costs 10 for all.
TEST(Remedies, RewritesAreTriedUnderTheSamePolicy) {
  testing::ReductionToy toy;
  std::vector<graph::Access> reads;
  for (const std::string i : {"0", "1", "2", "3", "4"}) {
    const graph::View g = toy.tensor("g" + i, 16);
    toy.compute("a" + i, {graph::write(g)});
    reads.push_back(graph::read(g));
  }
  for (int i = 0; i < 5; ++i) toy.reduce("r" + std::to_string(i), reads[static_cast<std::size_t>(i)].view);
  toy.compute("b", std::move(reads));
  const PlanningProblem problem = problem_of(toy.build(), {}, 10 * kUs);
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
