#include "runtime/simulate/class_times.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/simulate/unit_policy.h"

namespace weft::simulate {
namespace {

using testing::joint_problem;
using testing::PipelineToy;
using testing::unit_policy;

constexpr auto kProgram = [](const PipelineToy& toy, std::int64_t rank) { return units_in_program_order(toy, rank); };

TEST(Report, PartsOfTheBubble) {
  // stage 0: F0 . . . . B0 W0 F1 . . . . B1 W1      each letter 1000
  // stage 1: . F0 B0 W0 . . . . F1 B1 W1 . .
  const PipelineToy toy({.update = 10});
  const Report report = report_plan(joint_problem(toy), unit_policy(toy, kProgram));
  ASSERT_EQ(report.refusal, "");
  ASSERT_EQ(report.classes.size(), 2U);
  EXPECT_EQ(report.step_ns(), 10010);
  EXPECT_EQ(report.classes[0].times.compute, 6010);
  EXPECT_EQ(report.classes[0].times.idle_warm_up, 2000);
  EXPECT_EQ(report.classes[0].times.idle_steady, 0);
  EXPECT_EQ(report.classes[0].times.idle_drain, 2000);
  EXPECT_EQ(report.classes[0].times.idle_end, 0);
  EXPECT_EQ(report.classes[1].times.compute, 6010);
  EXPECT_EQ(report.classes[1].times.idle_warm_up, 1000);
  EXPECT_EQ(report.classes[1].times.idle_steady, 2000);
  EXPECT_EQ(report.classes[1].times.idle_drain, 0);
  EXPECT_EQ(report.classes[1].times.idle_end, 1000);
  EXPECT_DOUBLE_EQ(bubble_share(report.times()), 8000 / 20020.0);
}

TEST(Report, MessagesMoveOnlyWhenBothEndsHaveArrived) {
  const PipelineToy toy({.stages = 2, .micro_batches = 1, .message = 300, .collective = 50, .world = true});
  const Report report = report_plan(joint_problem(toy), unit_policy(toy, kProgram));
  ASSERT_EQ(report.refusal, "");
  // Stage 1 computes from 1300 to 4300, while the gradient moves; stage 0 to 1000 and from 3600 to 5600.
  EXPECT_EQ(report.step_ns(), 5650);
  EXPECT_EQ(report.classes[0].times.communication, 650);
  EXPECT_EQ(report.classes[0].times.exposed, 650);
  EXPECT_EQ(report.classes[1].times.communication, 650);
  EXPECT_EQ(report.classes[1].times.exposed, 350);
}

TEST(Report, MemoryIsToldByStage) {
  const PipelineToy toy({.saved = 1024});
  const Report report = report_plan(joint_problem(toy), unit_policy(toy, kProgram));
  ASSERT_EQ(report.classes.size(), 2U);
  EXPECT_EQ(report.classes[0].memory.of(graph::Role::parameter), 4096);
  EXPECT_EQ(report.classes[0].memory.of(graph::Role::gradient), 4096);
  EXPECT_EQ(report.memory_bytes(), std::max(report.classes[0].memory.total(), report.classes[1].memory.total()));
}

TEST(Report, BoundsAreThoseOfTheGraphs) {
  const PipelineToy toy({.stages = 3, .micro_batches = 4});
  const Report report = report_plan(joint_problem(toy), unit_policy(toy, kProgram));
  ASSERT_EQ(report.refusal, "");
  EXPECT_EQ(report.bounds.best(), 2000 + 4 * 3000);
  EXPECT_DOUBLE_EQ(report.gap(), report.step_ns() / 14000 - 1);
}

TEST(Report, PlansWithADeadlockAreRefused) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  const Report report = report_plan(joint_problem(toy), unit_policy(toy, [](const PipelineToy& t, std::int64_t rank) {
                                      return rank == 1 ? units_of_gpipe(t, rank) : kProgram(t, rank);
                                    }));
  EXPECT_FALSE(report.planned());
  EXPECT_EQ(report.refusal.find("the plans aren't safe: deadlock: stage 0: "), 0U) << report.refusal;
}

TEST(Report, APolicyThatRefusesIsToldSo) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  const Report report = report_plan(joint_problem(toy), policy::named_policy("fsdp"));
  EXPECT_NE(report.refusal.find("fsdp"), std::string::npos) << report.refusal;
}

TEST(Report, BuiltInPoliciesAreReported) {
  const PipelineToy toy({.stages = 4, .micro_batches = 8, .world = true, .embedding = true});
  for (const std::string name : {"gpipe", "1f1b", "zb-h1", "program", "serial"}) {
    const Report report = report_plan(joint_problem(toy), policy::named_policy(name));
    EXPECT_EQ(report.refusal, "") << name;
    EXPECT_GE(report.gap(), 0) << name;
    for (const ClassTimes& stage : report.times()) EXPECT_EQ(stage.compute + stage.idle(), report.step_ns()) << name;
  }
}

// Of ranks that differ, those with the other coordinates 0 stand for their stages.
TEST(Report, RanksStandForTheirStages) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  Problem problem = joint_problem(toy);
  problem.grid.data = 3;
  problem.simulation.noise = 0.1;
  const Report report = report_plan(problem, unit_policy(toy, kProgram));
  ASSERT_EQ(report.refusal, "");
  ASSERT_EQ(report.simulation.ranks.size(), 6U);
  EXPECT_EQ(&report.step(1), &report.simulation.ranks[1].steps.back());
  problem.grid.order = {graph::Axis::data, graph::Axis::x, graph::Axis::y, graph::Axis::z};
  const Report other = report_plan(problem, unit_policy(toy, kProgram));
  EXPECT_EQ(&other.step(1), &other.simulation.ranks[1].steps.back());
}

}  // namespace
}  // namespace weft::simulate
