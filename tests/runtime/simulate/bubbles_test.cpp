#include "runtime/simulate/bubbles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/explain.h"
#include "runtime/simulate/remedies.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/simulate/unit_policy.h"
#include "tests/runtime/toy_graph.h"

namespace weft::simulate {
namespace {

using testing::joint_problem;
using testing::PipelineToy;
using testing::unit_policy;
using Strings = std::vector<std::string>;

Report toy_report(const PipelineToy& toy, const testing::UnitPolicy::Units& units = testing::units_in_program_order) {
  Report report = report_plan(joint_problem(toy), unit_policy(toy, units));
  EXPECT_EQ(report.refusal, "");
  return report;
}

/// "begin-end cause" of a stage's gaps.
Strings told(const std::vector<BubbleGap>& gaps, std::size_t stage) {
  Strings texts;
  for (const BubbleGap& gap : gaps) {
    if (gap.stage == stage) {
      texts.push_back(std::to_string(static_cast<int>(gap.begin_ns)) + "-" +
                      std::to_string(static_cast<int>(gap.end_ns)) + " " + std::string(to_string(gap.cause)));
    }
  }
  return texts;
}

TEST(BubbleGaps, AreWaitsForOtherStagesAndMessages) {
  const PipelineToy toy(
      {.stages = 2, .micro_batches = 1, .update = 10, .message = 300, .collective = 50, .world = true});
  const std::vector<BubbleGap> gaps = bubble_gaps(toy_report(toy));
  EXPECT_EQ(told(gaps, 0), (Strings{"1000-3300 waits for a gradient", "3300-3600 a message is in flight",
                                    "5610-5660 a collective is in flight"}));
  EXPECT_EQ(told(gaps, 1),
            (Strings{"0-1000 waits for an activation", "1000-1300 a message is in flight",
                     "4310-5610 waits for other stages' collectives", "5610-5660 a collective is in flight"}));
}

TEST(BubbleGaps, NameTheOtherStageAndWhatCouldRunMeanwhile) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  const Report report = toy_report(toy);
  const std::vector<BubbleGap> gaps = bubble_gaps(report);
  ASSERT_EQ(gaps.size(), 5U);
  EXPECT_EQ(gaps[0].other_stage, 1U);
  EXPECT_EQ(gaps[0].fill_ns, 1000);
  EXPECT_EQ(to_string(gaps[0], report),
            "stage 0 waits for a gradient for 2.0 us before mb0.S0.bwd.input.p0: mb0.S0.bwd.receive comes from "
            "mb0.S1.bwd.input.p0 of stage 1; 1.0 us could run meanwhile: mb1.S0.fwd.p0");
  EXPECT_EQ(to_string(gaps[2], report),
            "stage 1 waits for an activation for 1.0 us before mb0.S1.fwd.p0: mb0.S1.fwd.receive comes from "
            "mb0.S0.fwd.p0 of stage 0");
  EXPECT_EQ(to_string(gaps[4], report), "stage 1 has no work left for 1.0 us");
}

// Each stage makes all gradients of weights at last. Stage 0 makes mb0's while it waits for the gradient of mb1.
TEST(BubbleGaps, GradientsOfWeightsFillAWaitForGradients) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  const Report report = toy_report(toy, [](const PipelineToy& t, std::int64_t rank) {
    std::vector<testing::PipelineUnit> units = units_in_program_order(t, rank);
    std::stable_partition(units.begin(), units.end(),
                          [](const testing::PipelineUnit& unit) { return unit.work != 'W'; });
    return units;
  });
  const std::vector<BubbleGap> gaps = bubble_gaps(report);
  ASSERT_EQ(told(gaps, 0), (Strings{"1000-3000 waits for a gradient", "5000-7000 waits for a gradient"}));
  EXPECT_EQ(gaps[1].fill_ns, 1000);
  ASSERT_EQ(gaps[1].fillers.size(), 1U);
  EXPECT_EQ(report.first().graph().task(gaps[1].fillers[0]).name, "mb0.S0.bwd.weight.p0");
}

TEST(BubbleGaps, AddUpToTheBubble) {
  for (const std::string name : {"gpipe", "1f1b", "zb-h1"}) {
    const PipelineToy toy({.stages = 4, .micro_batches = 6, .update = 5, .message = 70, .pieces = 2, .world = true});
    const Report report = report_plan(joint_problem(toy), policy::named_policy(name));
    ASSERT_EQ(report.refusal, "");
    const std::vector<BubbleSums> sums = bubble_sums(bubble_gaps(report), 4);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(std::accumulate(sums[stage].ns.begin(), sums[stage].ns.end(), 0.0), report.classes[stage].times.idle())
          << name << stage;
    }
  }
}

/// a of 10 on stage 0, whose x goes to stage 1 and is then overwritten by b. Stage 1 receives after c of 100.
TEST(BubbleGaps, ASenderMayWaitForItsReceiver) {
  Report report;
  std::vector<cost::TaskCosts> costs;
  for (std::size_t stage = 0; stage < 2; ++stage) {
    testing::ToyGraph toy;
    const graph::View x = toy.tensor("x", 8);
    const auto channel = stage == 0 ? graph::Channel::send_next : graph::Channel::receive_previous;
    toy.compute(stage == 0 ? "a" : "c", {graph::write(x)});
    if (stage == 0) {
      toy.add({.name = "message", .operation = graph::Send{channel, 1, 8}, .accesses = {graph::read(x)}});
      toy.compute("b", {graph::write(x)});
      costs.push_back({.ns = {10, 20, 5}, .cpu_ns = {0, 0, 0}});
    } else {
      toy.add({.name = "message", .operation = graph::Receive{channel, 1, 8}, .accesses = {graph::write(x)}});
      costs.push_back({.ns = {100, 0}, .cpu_ns = {0, 0}});
    }
    const auto graph = toy.build();
    std::vector<std::pair<std::string, std::string>> order;
    for (const graph::Task& task : graph->tasks())
      order.emplace_back(task.name, task.name == "message" ? to_string(channel) : "compute0");
    report.classes.push_back(
        {std::make_shared<const plan::Plan>(plan::make_plan(graph, testing::order_of(*graph, 1, order), "mine")), {}});
  }
  SimulationOptions options;
  options.grid.pipe = 2;
  report.simulation = simulate(report.plans(), costs, {}, options);
  const std::vector<BubbleGap> gaps = bubble_gaps(report);
  EXPECT_EQ(told(gaps, 0), (Strings{"10-100 waits for a receiver", "100-120 a message is in flight"}));
  EXPECT_EQ(told(gaps, 1), Strings{"100-125 has no work left"});
}

// An exposed collective of a pipeline counts from when its last member came, and says so.
TEST(ExposedCollective, OfAPipelineWaitsForOtherStages) {
  const PipelineToy toy({.stages = 2, .micro_batches = 1, .message = 300, .collective = 50, .world = true});
  const Report report = toy_report(toy);
  const Explanation first = explain(joint_problem(toy), report, {.only = "", .least_ns = 1, .rewrites = false}),
                    second = explain(joint_problem(toy), report, {.only = "", .least_ns = 1, .rewrites = false}, 1);
  // Stage 0 sends from 1000 to 1300, gets the gradient from 3300 to 3600, and both sum at 5600.
  ASSERT_EQ(first.collectives.size(), 3U);
  for (const ExposedCollective& each : first.collectives) EXPECT_EQ(each.exposed_ns, each.duration_ns);
  EXPECT_EQ(first.exposed_ns(), report.classes[0].times.exposed);
  EXPECT_EQ(second.exposed_ns(), report.classes[1].times.exposed);
  const auto sum = std::ranges::find(second.collectives, 50.0, &ExposedCollective::duration_ns);
  ASSERT_NE(sum, second.collectives.end());
  EXPECT_EQ(sum->cause, ExposureCause::members);
}

// Remedies move tasks of one class; the other classes keep their orders, and the plan file has all.
TEST(AppliedRemedies, OfAStageKeepTheOthers) {
  const PipelineToy toy({.stages = 2, .micro_batches = 4, .message = 400});
  const Problem problem = joint_problem(toy);
  const Report report = toy_report(toy);
  int tried = 0;
  for (std::size_t k = 0; k < 2; ++k) {
    const Explanation explanation = explain(problem, report, {.only = "", .least_ns = 1, .rewrites = false}, k);
    tried += explanation.remedies();
    for (int number = 1; number <= explanation.remedies(); ++number) {
      const AppliedRemedies applied = apply_remedies(problem, report, explanation, std::vector<int>{number}, k);
      ASSERT_EQ(applied.file.size(), 2U);
      EXPECT_LT(applied.step_ns, report.step_ns());
      EXPECT_EQ(applied.file[1 - k].sequence, plan::filed(*report.classes[1 - k].plan, {}).sequence);
    }
  }
  EXPECT_GT(tried, 0);
}

}  // namespace
}  // namespace weft::simulate
