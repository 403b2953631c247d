// Reports on small graphs whose times are added up by hand.
#include "runtime/simulate/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/plan/rewrites/rewrite_toy.h"
#include "tests/runtime/policy/deep_step.h"
#include "tests/runtime/priced_toy.h"

namespace weft::simulate {
namespace {

using testing::problem_of;
using testing::report_of;
using testing::ToyGraph;

/// a; then the all-reduce of its result beside b; c reads both.
std::shared_ptr<const graph::Graph> fork() {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 1024, graph::Role::parameter), q = toy.tensor("q", 64, graph::Role::parameter);
  toy.compute("a", {graph::write(p)});
  toy.collective("r", graph::Channel::data, {graph::read_write(p)}, 1024);
  toy.compute("b", {graph::write(q)});
  toy.compute("c", {graph::read(p), graph::read(q)});
  return toy.build();
}

const std::map<std::string, double> kPrices = {{"a", 1000}, {"r", 5000}, {"b", 3000}, {"c", 500}};

TEST(Report, TellsWhenAnotherOrderKeepsTheMemory) {
  Problem problem = problem_of(testing::two_gathers(1024), {}, 1000);
  const Report own = report_plan(problem, policy::named_policy("program"));
  EXPECT_EQ(own.order_for_memory(), "");
  EXPECT_EQ(own.step_ns(), 3000);
  problem.options.memory = own.memory_bytes() - 1;
  const Report changed = report_plan(problem, policy::named_policy("program"));
  ASSERT_TRUE(changed.planned()) << changed.refusal;
  EXPECT_EQ(changed.step_ns(), 4000);
  EXPECT_LT(changed.memory_bytes(), own.memory_bytes());
  EXPECT_NE(changed.order_for_memory(), "");
  EXPECT_EQ(changed.rewrites_for_memory(), "");
}

TEST(Report, TellsTheRewritesThatAPolicyChoseForMemory) {
  Problem problem = problem_of(testing::deep_step(3, 1024, 32), {});
  problem.options.memory_limit = testing::serial_scratch(problem.classes.front(), "recompute=0");
  for (const char* name : {"anneal:iterations=4", "portfolio:budget=4"}) {
    const Report report = report_plan(problem, policy::named_policy(name));
    ASSERT_TRUE(report.planned()) << report.refusal;
    EXPECT_EQ(report.rewrites_for_memory(), "recompute=0");
    EXPECT_EQ(report.first().rewrites, plan::parse_rewrites("recompute=0"));
    EXPECT_EQ(report.order_for_memory(), "");
  }
}

TEST(Report, TellsHowAPolicyJoinedMessages) {
  testing::ReductionToy toy;
  for (const char* name : {"a", "b"}) {
    const graph::View gradient = toy.tensor(name, 16, graph::Role::gradient);
    toy.compute(std::string("make ") + name, {graph::write(gradient)});
    toy.reduce(std::string("sum ") + name, gradient, graph::Channel::data, graph::Phase::backward);
  }
  Problem problem = problem_of(toy.build(), {});
  EXPECT_EQ(report_plan(problem, policy::named_policy("program")).first().messages, "");
  const Report joined = report_plan(problem, policy::named_policy("ddp-bucket:bucket-mb=1"));
  EXPECT_EQ(joined.first().messages, "bucket=1048576");
  EXPECT_EQ(joined.first().graph().tasks().size(), 3U);
  problem.rewrites = plan::parse_rewrites("bucket=1MB");
  EXPECT_EQ(report_plan(problem, policy::named_policy("program")).first().messages, "");
}

TEST(Report, SerialAndProgramByHand) {
  const Problem problem = problem_of(fork(), kPrices);
  const Report serial = report_plan(problem, policy::named_policy("serial")),
               program = report_plan(problem, policy::named_policy("program"));
  ASSERT_TRUE(serial.planned()) << serial.refusal;
  ASSERT_TRUE(program.planned()) << program.refusal;
  EXPECT_EQ(serial.policy.name, "serial");
  EXPECT_EQ(serial.step_ns(), 9500);
  EXPECT_EQ(serial.first().overlap.exposed, 5000);
  EXPECT_EQ(program.step_ns(), 6500);
  EXPECT_EQ(program.first().overlap.communication, 5000);
  EXPECT_EQ(program.first().overlap.exposed, 2000);
  for (const Report& report : {serial, program}) {
    EXPECT_EQ(report.bounds.critical_path, 6500);
    EXPECT_EQ(report.bounds.best(), 6500);
    EXPECT_EQ(report.first().alone.compute_ns, 4500);
    EXPECT_EQ(report.first().alone.communication_ns, 5000);
    EXPECT_GE(report.memory_bytes(), 4096 + 256);
    EXPECT_GE(report.planning_ms, 0);
    EXPECT_EQ(report.costs.front().ns.size(), report.first().graph().tasks().size());
  }
  EXPECT_NEAR(serial.gap(), 3.0 / 6.5, 1e-12);
  EXPECT_EQ(program.gap(), 0);
  ASSERT_EQ(program.first().channels.size(), 1U);
  EXPECT_EQ(program.first().channels[0].stream, "data");
  EXPECT_EQ(program.first().channels[0].busy_ns, 5000);
  EXPECT_EQ(program.first().channels[0].exposed_ns, 2000);
}

TEST(Report, ThePlanStaysWhenItIsSimulatedAgainWithOtherCosts) {
  Report report = report_plan(problem_of(fork(), kPrices), policy::named_policy("program"));
  const auto plan = report.first().plan;
  simulate_again(report, problem_of(fork(), {{"a", 1000}, {"r", 5000}, {"b", 6000}, {"c", 500}}));
  EXPECT_EQ(report.first().plan, plan);
  EXPECT_EQ(report.step_ns(), 7500);
  EXPECT_EQ(report.bounds.best(), 7500);
  EXPECT_EQ(report.first().overlap.exposed, 0);
  EXPECT_EQ(report.first().alone.compute_ns, 7500);
  EXPECT_EQ(report.first().alone.communication_ns, 5000);
}

TEST(Report, EveryChannelHasItsTimes) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8, graph::Role::parameter), q = toy.tensor("q", 8, graph::Role::parameter);
  toy.compute("a", {graph::write(p), graph::write(q)});
  toy.collective("x1", graph::Channel::x, {graph::read_write(p)});
  toy.collective("d1", graph::Channel::data, {graph::read_write(q)});
  toy.compute("b", {graph::read(q)});
  const auto graph = toy.build();
  const Problem problem = problem_of(graph, {{"a", 1000}, {"x1", 4000}, {"d1", 2000}, {"b", 1500}});
  const Report report = report_of(problem, testing::order_in(*graph, "a x1 d1 b"));
  // b runs at 3000-4500 beside x1 (1000-5000), d1 at 1000-3000 beside nothing.
  ASSERT_EQ(report.first().channels.size(), 2U);
  EXPECT_EQ(report.first().channels[0].stream, "x");
  EXPECT_EQ(report.first().channels[0].busy_ns, 4000);
  EXPECT_EQ(report.first().channels[0].exposed_ns, 2500);
  EXPECT_EQ(report.first().channels[1].stream, "data");
  EXPECT_EQ(report.first().channels[1].busy_ns, 2000);
  EXPECT_EQ(report.first().channels[1].exposed_ns, 2000);
}

TEST(Report, RewritesOfTheProblemCount) {
  testing::ReductionToy toy;
  const graph::View p = toy.tensor("p", 1024), q = toy.tensor("q", 1024);
  toy.compute("a", {graph::write(p), graph::write(q)});
  toy.reduce("r", p);
  toy.reduce("s", q);
  toy.compute("b", {graph::read(p), graph::read(q)});
  Problem problem = problem_of(toy.build(), {}, 100);
  EXPECT_EQ(report_plan(problem, policy::named_policy("serial")).first().graph().fingerprint(),
            problem.first().fingerprint());
  problem.rewrites = plan::parse_rewrites("split-collective=2KB");
  const Report split = report_plan(problem, policy::named_policy("serial"));
  ASSERT_TRUE(split.planned()) << split.refusal;
  EXPECT_EQ(split.first().graph().tasks().size(), 6U);
  EXPECT_EQ(split.costs.front().ns.size(), 6U);
  EXPECT_EQ(split.step_ns(), 600);
  problem.rewrites = plan::parse_rewrites("bucket");
  const Report bucket = report_plan(problem, policy::named_policy("serial"));
  ASSERT_TRUE(bucket.planned()) << bucket.refusal;
  EXPECT_EQ(bucket.first().graph().tasks().size(), 3U);
  EXPECT_EQ(bucket.bounds.best(), 300);
}

TEST(Report, WhatIsRefusedIsKept) {
  const Problem problem = problem_of(fork(), kPrices);
  Problem streams = problem;
  streams.options.compute_streams = 0;
  const Report none = report_plan(streams, policy::named_policy("program"));
  EXPECT_FALSE(none.planned());
  EXPECT_NE(none.refusal.find("compute streams"), std::string::npos) << none.refusal;
  Problem noise = problem;
  noise.simulation.noise = -1;
  EXPECT_NE(report_plan(noise, policy::named_policy("program")).refusal.find("noise"), std::string::npos);
}

TEST(Report, TheProblemsBoundsAreThoseOfAPolicyThatRewritesNothing) {
  const Problem problem = problem_of(fork(), kPrices);
  const ProblemBounds own = bounds_of(problem);
  const Report program = report_plan(problem, policy::named_policy("program"));
  EXPECT_EQ(own.bounds.best(), program.bounds.best());
  EXPECT_EQ(own.bounds.one_machine, program.bounds.one_machine);
  EXPECT_EQ(own.alone.compute_ns, 4500);
  EXPECT_EQ(own.alone.communication_ns, 5000);
}

TEST(Report, TheGapOfAStepThatMeetsItsBoundIsNothing) {
  Report report;
  report.simulation.step_ns = 0.3;
  report.bounds.critical_path = 0.1 + 0.2;  // a little more than 0.3
  EXPECT_LT(report.step_ns(), report.bounds.best());
  EXPECT_EQ(report.gap(), 0);
  EXPECT_FALSE(std::signbit(report.gap()));
  report.simulation.step_ns = 0.45;
  EXPECT_NEAR(report.gap(), 0.5, 1e-9);
  report.simulation.step_ns = 0.2;  // a bound that doesn't hold stays visible
  EXPECT_LT(report.gap(), 0);
}

TEST(Report, HiddenIsTheShareOfWhatCouldBeSaved) {
  EXPECT_EQ(hidden_share(100, 100, 60), 0);
  EXPECT_EQ(hidden_share(60, 100, 60), 1);
  EXPECT_EQ(hidden_share(70, 100, 60), 0.75);
  EXPECT_LT(hidden_share(110, 100, 60), 0);  // worse than serial
  EXPECT_EQ(hidden_share(100, 100, 100), 0);
  EXPECT_EQ(hidden_share(90, 100, 120), 0);
}

/// 100 computations one after the other, a gradient's sum beside the last of them.
Problem chain() {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 64, graph::Role::parameter), q = toy.tensor("q", 64, graph::Role::parameter);
  std::map<std::string, double> prices;
  toy.compute("g", {graph::write(q)});
  toy.collective("r", graph::Channel::data, {graph::read_write(q)}, 64);
  prices["g"] = 1000, prices["r"] = 3000;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "c" + std::to_string(i);
    toy.compute(name, {graph::read_write(p)});
    prices[name] = 1000;
  }
  return problem_of(toy.build(), prices);
}

TEST(Robustness, OfTinyNoiseIsTheStepItself) {
  const Problem problem = chain();
  const Report report = report_plan(problem, policy::named_policy("program"));
  const Robustness result = robustness_of(report, problem, {.noise = 1e-9, .slow_rank = 1, .draws = 3});
  EXPECT_NEAR(result.median_ns / report.step_ns(), 1, 1e-6);
  EXPECT_NEAR(result.p95_ns / report.step_ns(), 1, 1e-6);
  EXPECT_EQ(result.slow_rank_ns, report.step_ns());
}

TEST(Robustness, GrowsWithTheDisturbance) {
  const Problem problem = chain();
  const Report report = report_plan(problem, policy::named_policy("serial"));
  const Robustness calm = robustness_of(report, problem, {.noise = 0.05}), wild = robustness_of(report, problem, {});
  for (const Robustness& result : {calm, wild}) {
    EXPECT_GE(result.p95_ns, result.median_ns);
    // 101 of 104 µs are computations, which take 1.2 times as long.
    EXPECT_NEAR(result.slow_rank_ns, 3000 + 1.2 * 101000, 1);
  }
  EXPECT_GT(wild.p95_ns - wild.median_ns, calm.p95_ns - calm.median_ns);
  // The mean of 101 tasks spreads a tenth as much as a single task.
  EXPECT_LT(wild.p95_ns / report.step_ns(), 1.2);
}

TEST(Robustness, RefusesWhatIsNoDisturbance) {
  const Problem problem = chain();
  const Report report = report_plan(problem, policy::named_policy("serial"));
  EXPECT_THROW(robustness_of(report, problem, {.noise = -1}), UserError);
  EXPECT_THROW(robustness_of(report, problem, {.slow_rank = 0}), UserError);
  EXPECT_THROW(robustness_of(report, problem, {.noise = std::numeric_limits<double>::quiet_NaN()}), UserError);
  EXPECT_THROW(robustness_of(report, problem, {.draws = 0}), UserError);
}

}  // namespace
}  // namespace weft::simulate
