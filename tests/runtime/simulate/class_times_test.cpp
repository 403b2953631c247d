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

TEST(Report, PartsOfTheBubble) {
  // stage 0: F0 . . . . B0 W0 F1 . . . . B1 W1      each letter 1000
  // stage 1: . F0 B0 W0 . . . . F1 B1 W1 . .
  const PipelineToy toy({.update = 10});
  const Report report = report_plan(joint_problem(toy), unit_policy(toy, testing::units_in_program_order));
  ASSERT_EQ(report.refusal, "");
  ASSERT_EQ(report.classes.size(), 2U);
  EXPECT_EQ(report.step_ns(), 10010);
  const auto parts = [&](std::size_t stage) {
    const auto& times = report.classes[stage].times;
    return std::vector{times.compute, times.idle_warm_up, times.idle_steady, times.idle_drain, times.idle_end};
  };
  EXPECT_EQ(parts(0), (std::vector<double>{6010, 2000, 0, 2000, 0}));
  EXPECT_EQ(parts(1), (std::vector<double>{6010, 1000, 2000, 0, 1000}));
  EXPECT_DOUBLE_EQ(bubble_share(report.times()), 8000 / 20020.0);
}

TEST(Report, MemoryIsToldByStage) {
  const PipelineToy toy({.saved = 1024});
  const Report report = report_plan(joint_problem(toy), unit_policy(toy, testing::units_in_program_order));
  ASSERT_EQ(report.classes.size(), 2U);
  EXPECT_EQ(report.classes[0].memory.of(graph::Role::parameter), 4096);
  EXPECT_EQ(report.classes[0].memory.of(graph::Role::gradient), 4096);
  EXPECT_EQ(report.memory_bytes(), std::max(report.classes[0].memory.total(), report.classes[1].memory.total()));
}

TEST(Report, PlansWithADeadlockAreRefused) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  const Report report = report_plan(joint_problem(toy), unit_policy(toy, [](const PipelineToy& t, std::int64_t rank) {
                                      return rank == 1 ? units_of_gpipe(t, rank) : units_in_program_order(t, rank);
                                    }));
  EXPECT_FALSE(report.planned());
  EXPECT_EQ(report.refusal.find("the plans aren't safe: deadlock: stage 0: "), 0U) << report.refusal;
}

// Where ranks differ, the ranks with the other coordinates 0 stand for their stages.
TEST(Report, RanksStandForTheirStages) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  Problem problem = joint_problem(toy);
  problem.grid.data = 3;
  problem.simulation.noise = 0.1;
  const Report report = report_plan(problem, unit_policy(toy, testing::units_in_program_order));
  ASSERT_EQ(report.refusal, "");
  ASSERT_EQ(report.simulation.ranks.size(), 6U);
  EXPECT_EQ(&report.step(1), &report.simulation.ranks[1].steps.back());
  problem.grid.order = {graph::Axis::data, graph::Axis::x, graph::Axis::y, graph::Axis::z};
  const Report other = report_plan(problem, unit_policy(toy, testing::units_in_program_order));
  EXPECT_EQ(&other.step(1), &other.simulation.ranks[1].steps.back());
}

}  // namespace
}  // namespace weft::simulate
