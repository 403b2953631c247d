// Causes that hold a collective back, on graphs small enough to simulate by hand; times in microseconds.
#include "runtime/simulate/exposed_collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

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
using testing::report_of;
using testing::ToyGraph;
using testing::us;

// Two collectives share a link, so that each takes twice as long.
TEST(ExposedCollective, CollectivesThatShareALink) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {graph::write(p), graph::write(q)});
  toy.collective("c", graph::Channel::x, {graph::read_write(p)});
  toy.collective("e", graph::Channel::data, {graph::read_write(q)});
  toy.compute("b", {graph::read(p)});
  toy.compute("d", {graph::read(q)});
  const auto graph = toy.build();
  PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c", 20}, {"e", 20}, {"b", 5}, {"d", 5}}));
  problem.grid.x = 2;
  problem.simulation.link_of_channel = testing::one_link();
  const PlanReport report = report_of(
      problem,
      order_of(*graph, 1, {{"a", "compute0"}, {"c", "x"}, {"e", "data"}, {"b", "compute0"}, {"d", "compute0"}}));
  ASSERT_EQ(report.step_ns(), 60 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  const ExposedCollective& c = found(explanation, *graph, "c");
  EXPECT_EQ(c.cause, ExposureCause::contention);
  EXPECT_EQ(to_string(c.cause), "contention");
  EXPECT_EQ(c.duration_ns, 40 * kUs);
  EXPECT_EQ(c.alone_ns, 20 * kUs);
  // Without it e takes 10 to 30, b goes meanwhile, d ends at 35. d could go no earlier.
  EXPECT_EQ(remedies_of(explanation, *graph, "c").back(), "no_time: 25");
}

// Tensors that share memory delay a collective too, without a policy's choice.
TEST(ExposedCollective, WaitsForMemoryAreToldAsSuch) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {graph::write(p)});
  toy.compute("d", {graph::write(q)});
  toy.collective("c", graph::Channel::data, {graph::read_write(p)});
  toy.compute("b", {graph::read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"d", 30}, {"c", 20}, {"b", 5}}));
  plan::Order order = order_of(*graph, 1, {{"a", "compute0"}, {"d", "compute0"}, {"c", "data"}, {"b", "compute0"}});
  order.added_edges.push_back({graph->find_task("d"), graph->find_task("c"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  PlanReport report = report_of(problem, order);
  plan::Plan plan = *report.plan;
  for (graph::Edge& edge : plan.added_edges) edge.reason = graph::EdgeReason::memory;
  report.plan = std::make_shared<const plan::Plan>(std::move(plan));
  const Explanation explanation = explain(problem, report, kNoRewrites);
  EXPECT_EQ(found(explanation, *graph, "c").cause, ExposureCause::chosen);
  EXPECT_EQ(graph->task(found(explanation, *graph, "c").in_the_way).name, "d");
}

// The same edge because of memory: recognised by the kind of the reason, not by a word in a text or a policy's name.
TEST(ExposedCollective, ACollectiveThatWaitsForMemoryByThePolicysOwnWord) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {graph::write(p)});
  toy.compute("d", {graph::write(q)});
  toy.collective("c", graph::Channel::data, {graph::read_write(p)});
  toy.compute("b", {graph::read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"d", 30}, {"c", 20}, {"b", 5}}));
  plan::Order order = order_of(*graph, 1, {{"a", "compute0"}, {"d", "compute0"}, {"c", "data"}, {"b", "compute0"}});
  order.added_edges.push_back({graph->find_task("d"), graph->find_task("c"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  order.reasons.emplace_back();
  std::ranges::find(order.sequence, graph->find_task("c"), &plan::Placement::task)->reason = 1;
  const auto explained = [&](plan::Reason reason) {
    order.reasons[1] = std::move(reason);
    return found(explain(problem, report_of(problem, order), kNoRewrites), *graph, "c");
  };
  EXPECT_EQ(explained({.kind = plan::ReasonKind::held_for_memory}).cause, ExposureCause::memory_limit);
  EXPECT_EQ(to_string(ExposureCause::memory_limit), "memory limit");
  const plan::Selection selection{.order = "fsdp", .orders = 13};
  const ExposedCollective limited =
      explained({.kind = plan::ReasonKind::limiter, .numbers = {2}, .selection = selection});
  EXPECT_EQ(limited.cause, ExposureCause::memory_limit);
  EXPECT_NE(limited.because.find("limiter: at most 2 layers are gathered and not passed yet"), std::string::npos)
      << limited.because;
  EXPECT_EQ(explained({.kind = plan::ReasonKind::rule_consumer,
                       .selection = plan::Selection{.order = "lhs:rules=memory+communication+critical"}})
                .cause,
            ExposureCause::chosen);
  EXPECT_EQ(explained({.kind = plan::ReasonKind::other, .text = "out of memory of how it was done before"}).cause,
            ExposureCause::chosen);
}

// x is small, prepares c's data, and could have run before d.
TEST(ExposedCollective, ALocalTaskThatMakesItsDataLate) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
  toy.compute("a", {graph::write(p)});
  toy.compute("d", {graph::write(q)});
  toy.compute("x", {graph::read(p), graph::write(r)});
  toy.collective("c", graph::Channel::data, {graph::read_write(r)});
  toy.compute("b", {graph::read(r)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"d", 30}, {"x", 1}, {"c", 20}, {"b", 5}}));
  const plan::Order order =
      order_of(*graph, 1, {{"a", "compute0"}, {"d", "compute0"}, {"x", "compute0"}, {"c", "data"}, {"b", "compute0"}});
  const PlanReport report = report_of(problem, order);
  ASSERT_EQ(report.step_ns(), 66 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  const ExposedCollective& c = found(explanation, *graph, "c");
  EXPECT_EQ(c.cause, ExposureCause::local_task);
  EXPECT_EQ(graph->task(c.in_the_way).name, "x");
  // a 10, x 11, c 31, d 41, b 46
  EXPECT_EQ(remedies_of(explanation, *graph, "c").front(), "local_task: 20");
}

// The policy makes d wait for c, though it doesn't need it.
TEST(ExposedCollective, ATaskThatThePolicyMakesWait) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {graph::write(p)});
  toy.collective("c", graph::Channel::data, {graph::read_write(p)});
  toy.compute("d", {graph::write(q)});
  toy.compute("b", {graph::read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c", 20}, {"d", 30}, {"b", 5}}));
  plan::Order order = order_of(*graph, 1, {{"a", "compute0"}, {"c", "data"}, {"d", "compute0"}, {"b", "compute0"}});
  order.added_edges.push_back({graph->find_task("c"), graph->find_task("d"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  const PlanReport report = report_of(problem, order);
  ASSERT_EQ(report.step_ns(), 65 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  EXPECT_EQ(found(explanation, *graph, "c").cause, ExposureCause::chosen);
  EXPECT_EQ(graph->task(found(explanation, *graph, "c").in_the_way).name, "d");
  EXPECT_EQ(remedies_of(explanation, *graph, "c").front(), "unblock: 20");
}

// Data that no task of the step makes are there from its begin: how late the collective is doesn't count from there.
TEST(ExposedCollective, LatenessCountsUpToWhatWouldHideIt) {
  ToyGraph toy;
  const graph::View w = toy.tensor("w", 8, graph::Role::parameter), q = toy.tensor("q", 8);
  toy.compute("d", {graph::write(q)});
  toy.collective("c", graph::Channel::data, {graph::read_write(w)});
  toy.compute("b", {graph::read(w)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"d", 100}, {"c", 20}, {"b", 5}}));
  plan::Order order = order_of(*graph, 1, {{"d", "compute0"}, {"c", "data"}, {"b", "compute0"}});
  order.added_edges.push_back({graph->find_task("d"), graph->find_task("c"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  const Explanation explanation = explain(problem, report_of(problem, order), kNoRewrites);
  const ExposedCollective& c = found(explanation, *graph, "c");
  EXPECT_FALSE(c.input.valid());
  EXPECT_EQ(c.late_ns(), 100 * kUs);
  EXPECT_EQ(c.too_late_ns(), 20 * kUs);
}

// What the step recomputes for its backward pass can't stand in the way of its forward pass.
TEST(ExposedCollective, ComputationsOfOtherPassesAreNoCause) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {graph::write(p)});
  toy.collective("c", graph::Channel::data, {graph::read_write(p)});
  toy.compute("b", {graph::read(p)});
  toy.add(
      {.name = "again", .operation = graph::Add{1}, .accesses = {graph::write(q)}, .phase = graph::Phase::backward});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c", 20}, {"b", 5}, {"again", 15}}));
  const PlanReport report = report_of(
      problem, order_of(*graph, 1, {{"a", "compute0"}, {"c", "data"}, {"b", "compute0"}, {"again", "compute0"}}));
  const Explanation explanation = explain(problem, report, kNoRewrites);
  EXPECT_EQ(found(explanation, *graph, "c").cause, ExposureCause::data_dependency);
  EXPECT_EQ(remedies_of(explanation, *graph, "c"), (std::vector<std::string>{"no_time: 20"}));
  ASSERT_EQ(explanation.between_passes.size(), 1U);
  EXPECT_EQ(explanation.between_passes[0].kind, RemedyKind::computations_moved);
  EXPECT_EQ(explanation.between_passes[0].gain_ns, 15 * kUs);
  EXPECT_EQ(explanation.between_passes[0].computations, 1U);
  EXPECT_EQ(explanation.between_passes[0].number, 1);
}

}  // namespace
}  // namespace weft::simulate
