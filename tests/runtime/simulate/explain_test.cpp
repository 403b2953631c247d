// Causes, words and gains on graphs small enough to simulate by hand; times in microseconds.
#include "runtime/simulate/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "tests/runtime/plan/rewrites/rewrite_toy.h"
#include "tests/runtime/priced_toy.h"

namespace weft {
namespace {

using testing::order_of;
using testing::problem_of;
using testing::report_of;
using testing::ToyGraph;

constexpr double kUs = 1000;

std::map<std::string, double> us(std::map<std::string, double> prices) {
  for (auto& [name, ns] : prices) ns *= kUs;
  return prices;
}

const ExplainOptions kNoRewrites{"", 1000, 8, false};

const ExposedCollective& found(const Explanation& explanation, const Graph& graph, const std::string& task) {
  for (const ExposedCollective& exposed : explanation.collectives) {
    if (graph.task(exposed.task).name == task) return exposed;
  }
  ADD_FAILURE() << task << " isn't exposed";
  return explanation.collectives.front();
}

/// "what: gain" of every remedy, in microseconds.
std::vector<std::string> remedies_of(const ExposedCollective& exposed) {
  std::vector<std::string> remedies;
  for (const Remedy& remedy : exposed.remedies) {
    remedies.push_back(remedy.what + ": " + std::to_string(std::lround(remedy.gain_ns / kUs)));
  }
  return remedies;
}

/// What a path's pieces last must be what the step lasts.
void expect_whole(const Explanation& explanation, const PlanReport& report) {
  double sum = 0;
  for (const PathPiece& piece : explanation.path) sum += piece.ns;
  EXPECT_NEAR(sum, report.step_ns(), 1);
}

// a | c | b
TEST(Explain, ACollectiveThatEverythingWaitsFor) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8);
  toy.compute("a", {write(p)});
  toy.collective("c", Channel::data, {read_write(p)});
  toy.compute("b", {read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c", 20}, {"b", 5}}));
  const PlanReport report =
      report_of(problem, order_of(*graph, 1, {{"a", "compute0"}, {"c", "data"}, {"b", "compute0"}}));
  const Explanation explanation = explain(problem, report, kNoRewrites);
  ASSERT_EQ(explanation.collectives.size(), 1U);
  const ExposedCollective& c = explanation.collectives[0];
  EXPECT_EQ(c.cause, ExposureCause::data_dependency);
  EXPECT_EQ(to_string(c.cause), "data dependency");
  EXPECT_EQ(c.because, "started when a was done, and nothing else could be computed until it ended");
  EXPECT_EQ(c.exposed_ns, 20 * kUs);
  EXPECT_EQ(c.duration_ns, 20 * kUs);
  EXPECT_EQ(c.alone_ns, 20 * kUs);
  EXPECT_EQ(c.ready_ns, 10 * kUs);
  EXPECT_EQ(c.begin_ns, 10 * kUs);
  EXPECT_EQ(remedies_of(c), (std::vector<std::string>{"if it took no time at all: 20"}));
  ASSERT_EQ(explanation.path.size(), 3U);
  EXPECT_EQ(explanation.path[0].kind, "add");
  EXPECT_EQ(explanation.path[1].kind, "all_reduce on data");
  EXPECT_EQ(explanation.path[1].ns, 20 * kUs);
  EXPECT_EQ(explanation.path[2].first, "b");
  expect_whole(explanation, report);
  EXPECT_TRUE(explanation.rewrites.empty());
}

// b needs c and stands before d and e, which don't.
TEST(Explain, ComputationsThatStandInTheWrongOrder) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
  toy.compute("a", {write(p)});
  toy.collective("c", Channel::data, {read_write(p)});
  toy.compute("b", {read(p)});
  toy.compute("d", {write(q)});
  toy.compute("e", {write(r)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c", 20}, {"b", 5}, {"d", 8}, {"e", 15}}));
  const PlanReport report = report_of(
      problem,
      order_of(*graph, 1, {{"a", "compute0"}, {"c", "data"}, {"b", "compute0"}, {"d", "compute0"}, {"e", "compute0"}}));
  ASSERT_EQ(report.step_ns(), 58 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  const ExposedCollective& c = found(explanation, *graph, "c");
  EXPECT_EQ(c.cause, ExposureCause::computation_order);
  EXPECT_EQ(to_string(c.cause), "order of computations");
  // The largest of them.
  EXPECT_EQ(c.because, "computations that don't need it were ready, e for one, but stood behind one that does");
  EXPECT_EQ(remedies_of(c), (std::vector<std::string>{"compute 0.023 ms that don't need it (e, …) before what does: 20",
                                                      "if it took no time at all: 20"}));
  // b, d and e are one piece of three additions.
  ASSERT_EQ(explanation.path.size(), 3U);
  EXPECT_EQ(explanation.path[2].tasks, 3);
  EXPECT_EQ(explanation.path[2].first, "b");
  EXPECT_EQ(explanation.path[2].last, "e");
  EXPECT_EQ(explanation.path[2].ns, 28 * kUs);
  expect_whole(explanation, report);
}

// c2 is ready with c1, but c1 goes first.
TEST(Explain, ACollectiveInAQueue) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {write(p), write(q)});
  toy.collective("c1", Channel::data, {read_write(p)});
  toy.collective("c2", Channel::data, {read_write(q)});
  toy.compute("b", {read(q)});
  toy.compute("d", {read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c1", 30}, {"c2", 10}, {"b", 5}, {"d", 4}}));
  const PlanReport report = report_of(
      problem,
      order_of(*graph, 1, {{"a", "compute0"}, {"c1", "data"}, {"c2", "data"}, {"b", "compute0"}, {"d", "compute0"}}));
  ASSERT_EQ(report.step_ns(), 59 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  ASSERT_EQ(explanation.collectives.size(), 2U);
  EXPECT_EQ(graph->task(explanation.collectives[0].task).name, "c1");  // exposed for longer
  const ExposedCollective& c2 = found(explanation, *graph, "c2");
  EXPECT_EQ(c2.cause, ExposureCause::queued);
  EXPECT_EQ(to_string(c2.cause), "queued behind another");
  EXPECT_EQ(c2.because, "queued for 0.030 ms behind c1 on stream data");
  EXPECT_EQ(c2.ready_ns, 10 * kUs);
  EXPECT_EQ(c2.begin_ns, 40 * kUs);
  // To pass c1 is to be issued behind a: one order, one remedy.
  EXPECT_EQ(remedies_of(c2),
            (std::vector<std::string>{"if it took no time at all: 10", "issue it as soon as a is done: 5",
                                      "compute 0.004 ms that don't need it (d, …) before what does: 4"}));
  expect_whole(explanation, report);
}

// What leads to a collective passes the queue with it, and the policy's edges that forbid it go.
TEST(Explain, WhatLeadsToACollectivePassesTheQueueToo) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
  toy.compute("a", {write(p)});
  toy.collective("c1", Channel::data, {read_write(p)});
  toy.compute("x", {write(r)});
  toy.compute("f", {write(q)});
  toy.collective("c2", Channel::data, {read_write(q)});
  toy.compute("b", {read(q)});
  toy.compute("d", {read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem =
      problem_of(graph, us({{"a", 10}, {"c1", 30}, {"x", 2}, {"f", 5}, {"c2", 10}, {"b", 25}, {"d", 4}}));
  Order order = order_of(*graph, 1,
                         {{"a", "compute0"},
                          {"c1", "data"},
                          {"x", "compute0"},
                          {"f", "compute0"},
                          {"c2", "data"},
                          {"b", "compute0"},
                          {"d", "compute0"}});
  order.added_edges.push_back(
      {graph->find_task("x"), graph->find_task("f"), EdgeKind::completes_before, EdgeReason::policy, 0, TensorId()});
  const PlanReport report = report_of(problem, order);
  ASSERT_EQ(report.step_ns(), 79 * kUs);  // a 10, c1 40, c2 50, b 75, d 79
  const Explanation explanation = explain(problem, report, kNoRewrites);
  const ExposedCollective& c2 = found(explanation, *graph, "c2");
  EXPECT_EQ(c2.cause, ExposureCause::queued);
  // a 10, f 15, c2 25, c1 55; x 17, b 50, d 59
  const std::vector<std::string> remedies = remedies_of(c2);
  EXPECT_EQ(remedies.front(), "issue it before c1: 20");
}

// The policy lets c wait for d.
TEST(Explain, ACollectiveThatThePolicyHoldsBack) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {write(p)});
  toy.compute("d", {write(q)});
  toy.collective("c", Channel::data, {read_write(p)});
  toy.compute("b", {read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"d", 30}, {"c", 20}, {"b", 5}}));
  Order order = order_of(*graph, 1, {{"a", "compute0"}, {"d", "compute0"}, {"c", "data"}, {"b", "compute0"}});
  order.added_edges.push_back(
      {graph->find_task("d"), graph->find_task("c"), EdgeKind::completes_before, EdgeReason::policy, 0, TensorId()});
  const PlanReport report = report_of(problem, order);
  ASSERT_EQ(report.step_ns(), 65 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  const ExposedCollective& c = found(explanation, *graph, "c");
  EXPECT_EQ(c.cause, ExposureCause::chosen);
  EXPECT_EQ(to_string(c.cause), "issued late by choice");
  EXPECT_EQ(c.because, "issued 0.030 ms late: the policy lets it wait for d");
  EXPECT_EQ(c.exposed_ns, 20 * kUs);
  EXPECT_EQ(remedies_of(c),
            (std::vector<std::string>{"issue it as soon as a is done: 20", "if it took no time at all: 20"}));
  expect_whole(explanation, report);

  // The same edge for memory's sake, as the policy says itself.
  order.reasons.emplace_back("held back until memory was free");
  std::ranges::find(order.sequence, graph->find_task("c"), &Placement::task)->reason = 1;
  const Explanation limited = explain(problem, report_of(problem, order), kNoRewrites);
  EXPECT_EQ(found(limited, *graph, "c").cause, ExposureCause::memory_limit);
  EXPECT_EQ(to_string(ExposureCause::memory_limit), "memory limit");
  EXPECT_EQ(found(limited, *graph, "c").because, "issued 0.030 ms late: held back until memory was free");
}

// The input that is ready last isn't the one that stands last in the sequence.
TEST(Explain, IssuesBehindAllInputsWhateverTheirOrder) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
  toy.compute("long", {write(p)});
  toy.compute("short", {write(q)});
  toy.compute("d", {write(r)});
  toy.collective("c", Channel::data, {read_write(p), read_write(q)});
  toy.compute("b", {read(p)});
  const auto graph = toy.build();
  PlanningProblem problem = problem_of(graph, us({{"long", 50}, {"short", 10}, {"d", 60}, {"c", 20}, {"b", 5}}));
  problem.options.compute_streams = 2;
  Order order = order_of(
      *graph, 2, {{"long", "compute0"}, {"short", "compute1"}, {"d", "compute0"}, {"c", "data"}, {"b", "compute1"}});
  order.added_edges.push_back(
      {graph->find_task("d"), graph->find_task("c"), EdgeKind::completes_before, EdgeReason::policy, 0, TensorId()});
  const PlanReport report = report_of(problem, order);
  ASSERT_EQ(report.step_ns(), 135 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  EXPECT_EQ(remedies_of(found(explanation, *graph, "c")).front(), "issue it as soon as long is done: 25");
}

// Two collectives share a link, so that each takes twice as long.
TEST(Explain, CollectivesThatShareALink) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {write(p), write(q)});
  toy.collective("c", Channel::x, {read_write(p)});
  toy.collective("e", Channel::data, {read_write(q)});
  toy.compute("b", {read(p)});
  toy.compute("d", {read(q)});
  const auto graph = toy.build();
  PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"c", 20}, {"e", 20}, {"b", 5}, {"d", 5}}));
  problem.grid.x = 2;
  problem.simulation.link_of_channel = {0, 0, 0, 0, 0, 0};
  const PlanReport report = report_of(
      problem,
      order_of(*graph, 1, {{"a", "compute0"}, {"c", "x"}, {"e", "data"}, {"b", "compute0"}, {"d", "compute0"}}));
  ASSERT_EQ(report.step_ns(), 60 * kUs);
  const Explanation explanation = explain(problem, report, kNoRewrites);
  const ExposedCollective& c = found(explanation, *graph, "c");
  EXPECT_EQ(c.cause, ExposureCause::contention);
  EXPECT_EQ(to_string(c.cause), "contention");
  EXPECT_EQ(c.because, "took 0.040 ms instead of 0.020: others shared its link or its cores");
  EXPECT_EQ(c.duration_ns, 40 * kUs);
  EXPECT_EQ(c.alone_ns, 20 * kUs);
  // Without it e takes 10 to 30, b goes meanwhile, d ends at 35. d could go no earlier.
  EXPECT_EQ(remedies_of(c).front(), "if it took no time at all: 25");
}

// Tensors that share memory hold a collective back as well, which nobody chose.
TEST(Explain, WaitsForMemoryAreToldAsSuch) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {write(p)});
  toy.compute("d", {write(q)});
  toy.collective("c", Channel::data, {read_write(p)});
  toy.compute("b", {read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, us({{"a", 10}, {"d", 30}, {"c", 20}, {"b", 5}}));
  Order order = order_of(*graph, 1, {{"a", "compute0"}, {"d", "compute0"}, {"c", "data"}, {"b", "compute0"}});
  order.added_edges.push_back(
      {graph->find_task("d"), graph->find_task("c"), EdgeKind::completes_before, EdgeReason::policy, 0, TensorId()});
  PlanReport report = report_of(problem, order);
  Plan plan = *report.plan;
  for (Edge& edge : plan.added_edges) edge.reason = EdgeReason::memory;
  report.plan = std::make_shared<const Plan>(std::move(plan));
  const Explanation explanation = explain(problem, report, kNoRewrites);
  EXPECT_EQ(found(explanation, *graph, "c").because, "issued 0.030 ms late: it uses memory that d had to leave first");
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
        const View p = toy.tensor(name, 8);
        toy.compute(name, {write(p)});
        toy.collective(name + ".reduce", Channel::data, {read_write(p)});
        toy.compute(name + ".use", {read(p)});
        prices[name] = prices[name + ".use"] = 1;
        prices[name + ".reduce"] = layer == "L1" && mb == "mb1" ? 9 : 4;
        order.insert(order.end(), {{name, "compute0"}, {name + ".reduce", "data"}, {name + ".use", "compute0"}});
      }
    }
    const View n = toy.tensor("n", 8);
    toy.compute("L2norm", {write(n)});
    toy.collective("L2norm.reduce", Channel::x, {read_write(n)});
    toy.compute("L2norm.use", {read(n)});
    prices["L2norm"] = prices["L2norm.use"] = 1;
    prices["L2norm.reduce"] = 50;
    order.insert(order.end(), {{"L2norm", "compute0"}, {"L2norm.reduce", "x"}, {"L2norm.use", "compute0"}});
    graph = toy.build();
    problem = problem_of(graph, us(prices));
    problem.grid.x = 2;
    report = report_of(problem, order_of(*graph, 1, order));
  }
  std::shared_ptr<const Graph> graph;
  PlanningProblem problem;
  PlanReport report;
};

TEST(Explain, GroupsWhatDiffersInLayerAndMicroBatchAlone) {
  const Layers layers;
  const Explanation explanation = explain(layers.problem, layers.report, kNoRewrites);
  ASSERT_EQ(explanation.collectives.size(), 7U);
  double sum = 0;
  std::set<std::size_t> members;
  for (const ExposureGroup& group : explanation.groups) {
    double exposed = 0;
    for (const std::size_t i : group.members) {
      const ExposedCollective& member = explanation.collectives[i];
      EXPECT_EQ(member.cause, explanation.collectives[group.members.front()].cause);
      EXPECT_LE(member.exposed_ns, explanation.collectives[group.members.front()].exposed_ns);
      exposed += member.exposed_ns;
      EXPECT_TRUE(members.insert(i).second);
    }
    EXPECT_EQ(group.exposed_ns, exposed);
    sum += exposed;
  }
  EXPECT_EQ(members.size(), 7U);
  EXPECT_EQ(sum, (50 + 9 + 5 * 4) * kUs);
  ASSERT_EQ(explanation.groups.size(), 2U);
  EXPECT_EQ(explanation.groups[0].name, "L2norm.reduce");
  EXPECT_EQ(explanation.groups[0].members.size(), 1U);
  EXPECT_EQ(explanation.groups[1].name, "mb*.L*.up.reduce");
  EXPECT_EQ(explanation.groups[1].members.size(), 6U);
  const ExposedCollective& worst = explanation.collectives[explanation.groups[1].members.front()];
  EXPECT_EQ(layers.graph->task(worst.task).name, "mb1.L1.up.reduce");
}

TEST(Explain, TheWorstOfEachGroupGetsItsRemediesFirst) {
  const Layers layers;
  ExplainOptions options = kNoRewrites;
  options.most_remedied = 2;
  const Explanation explanation = explain(layers.problem, layers.report, options);
  for (std::size_t group = 0; group < explanation.groups.size(); ++group) {
    const auto& members = explanation.groups[group].members;
    EXPECT_EQ(!explanation.collectives[members.front()].remedies.empty(), group < 2);
    for (std::size_t i = 1; i < members.size(); ++i) {
      EXPECT_TRUE(explanation.collectives[members[i]].remedies.empty());
    }
  }
}

TEST(Explain, OneCollectiveByNameOrTheNearest) {
  const Layers layers;
  ExplainOptions options = kNoRewrites;
  options.only = "mb1.L1.up.reduce";
  const Explanation explanation = explain(layers.problem, layers.report, options);
  ASSERT_EQ(explanation.collectives.size(), 1U);
  EXPECT_EQ(explanation.collectives[0].exposed_ns, 9 * kUs);
  EXPECT_FALSE(explanation.collectives[0].remedies.empty());
  ASSERT_EQ(explanation.groups.size(), 1U);
  EXPECT_EQ(explanation.groups[0].name, "mb1.L1.up.reduce");
  options.only = "mb1.L1.up.reduc";
  try {
    explain(layers.problem, layers.report, options);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("write \"mb1.L1.up.reduce\""), std::string::npos) << message;
  }
}

// Whatever is hidden well enough isn't worth a word, unless it is asked for.
TEST(Explain, HiddenCollectivesAreLeftOut) {
  ToyGraph toy;
  const View p = toy.tensor("p", 8), q = toy.tensor("q", 8);
  toy.compute("a", {write(p)});
  toy.collective("c", Channel::data, {read_write(p)});
  toy.compute("d", {write(q)});
  toy.compute("b", {read(p)});
  const auto graph = toy.build();
  const PlanningProblem problem = problem_of(graph, {{"a", 10000}, {"c", 20900}, {"d", 20000}, {"b", 5000}});
  const PlanReport report =
      report_of(problem, order_of(*graph, 1, {{"a", "compute0"}, {"c", "data"}, {"d", "compute0"}, {"b", "compute0"}}));
  EXPECT_TRUE(explain(problem, report, kNoRewrites).collectives.empty());
  ExplainOptions options = kNoRewrites;
  options.only = "c";
  const Explanation one = explain(problem, report, options);
  ASSERT_EQ(one.collectives.size(), 1U);
  EXPECT_EQ(one.collectives[0].exposed_ns, 900);
}

// Five all-reduces that each cost 10 µs whatever their size: one bucket costs 10 for all.
TEST(Explain, RewritesAreTriedUnderTheSamePolicy) {
  testing::ReductionToy toy;
  std::vector<Access> reads;
  for (const std::string i : {"0", "1", "2", "3", "4"}) {
    const View g = toy.tensor("g" + i, 16);
    toy.compute("a" + i, {write(g)});
    reads.push_back(read(g));
  }
  for (int i = 0; i < 5; ++i) toy.reduce("r" + std::to_string(i), reads[static_cast<std::size_t>(i)].view);
  toy.compute("b", std::move(reads));
  const PlanningProblem problem = problem_of(toy.build(), {}, 10 * kUs);
  const PlanReport report = report_plan(problem, named_policy("serial"));
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

// Of every policy on a real graph's costs: the path is the whole step, and the sums agree.
TEST(Explain, PathsOfEveryPolicyAddUpToTheStep) {
  const Layers layers;
  for (const std::string& policy : policy_names()) {
    const PlanReport report = report_plan(layers.problem, named_policy(policy));
    ASSERT_TRUE(report.planned()) << policy << ": " << report.refusal;
    const Explanation explanation = explain(layers.problem, report, {"", 0, 100, false});
    double sum = 0;
    for (const PathPiece& piece : explanation.path) sum += piece.ns;
    EXPECT_NEAR(sum, report.step_ns(), 30) << policy;
    double exposed = 0;
    for (const ExposedCollective& one : explanation.collectives) exposed += one.exposed_ns;
    EXPECT_GE(exposed, static_cast<double>(report.overlap.exposed)) << policy;
  }
}

}  // namespace
}  // namespace weft
