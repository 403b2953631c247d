#include "runtime/policy/scheduling/class_tasks.h"

#include <gtest/gtest.h>

#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/policy/pipeline/random_pipeline.h"

namespace weft::policy {
namespace {

std::uint32_t number_of(const ClassTasks& tasks, std::size_t rank, const std::string& name) {
  return tasks.first(rank) + tasks.graph(rank).find_task(name).value;
}

TEST(ClassTasks, TheEndsOfAMessageAreOneNodeOnOneLane) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 2, .message = 70, .world = true});
  const ClassTasks tasks(toy.classes(), toy.costs(), 1);
  const std::uint32_t send = number_of(tasks, 0, "mb1.S0.fwd.send"),
                      receive = number_of(tasks, 1, "mb1.S1.fwd.receive");
  EXPECT_EQ(tasks.node_of(receive), send);
  EXPECT_TRUE(tasks.is_node(send));
  EXPECT_FALSE(tasks.is_node(receive));
  ASSERT_EQ(tasks.members(send).size(), 2U);
  EXPECT_EQ(tasks.cost(send), 70);
  EXPECT_EQ(tasks.costs()[1].ns[tasks.graph(1).find_task("mb1.S1.fwd.receive").index()], 70);
  EXPECT_EQ(tasks.resource_of(send), tasks.resource_of(receive));
  EXPECT_EQ(tasks.lanes()[tasks.resource_of(send)].classes, (std::vector<std::uint32_t>{0, 1}));
  // The other direction has a lane of its own, and so has the sum of all stages.
  EXPECT_NE(tasks.resource_of(number_of(tasks, 1, "mb1.S1.bwd.send")), tasks.resource_of(send));
  EXPECT_EQ(tasks.node_of(number_of(tasks, 1, "gradient_norm")), number_of(tasks, 0, "gradient_norm"));
  // Two compute streams, three lanes of both classes.
  EXPECT_EQ(tasks.lanes().size(), 5U);
}

// One micro-batch: two forward passes and a message, two gradients of inputs and a message, then the last weight's.
TEST(ClassTasks, PathsGoThroughMessages) {
  const testing::PipelineToy toy(
      {.stages = 2, .micro_batches = 1, .forward = 100, .input = 50, .weight = 30, .update = 5, .message = 7});
  const ClassTasks tasks(toy.classes(), toy.costs(), 1);
  const std::vector<double> rank = upward_rank(tasks);
  EXPECT_EQ(rank[number_of(tasks, 0, "mb0.S0.fwd.p0")], 100 + 7 + 100 + 50 + 7 + 50 + 5);
  EXPECT_EQ(rank[number_of(tasks, 1, "mb0.S1.fwd.receive")], 7 + 100 + 50 + 7 + 50 + 5);
  EXPECT_EQ(rank[number_of(tasks, 1, "mb0.S1.bwd.weight.p0")], 35);
}

TEST(ClassTasks, ComputationsOfAPassHaveOneRank) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 2, .pieces = 3});
  const ClassTasks tasks(toy.classes(), toy.costs(), 1);
  const std::vector<double> rank = upward_rank(tasks);
  const auto rank_of = [&](std::size_t k, const char* name) { return rank[number_of(tasks, k, name)]; };
  EXPECT_EQ(rank_of(0, "mb1.S0.fwd.p2"), rank_of(0, "mb1.S0.fwd.p0"));
  EXPECT_EQ(rank_of(1, "mb1.S1.bwd.input.p0"), rank_of(1, "mb1.S1.bwd.input.p2"));
  EXPECT_LT(rank_of(1, "mb1.S1.bwd.weight.p2"), rank_of(1, "mb1.S1.bwd.input.p0"));
  // Nobody waits for what the first stage's backward pass makes.
  EXPECT_LT(rank_of(0, "mb1.S0.bwd.input.p0"), rank_of(0, "mb1.S0.bwd.input.p2"));
}

TEST(ClassTasks, AreInTopologicalOrder) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto classes = testing::random_pipeline(seed, {});
    std::vector<cost::TaskCosts> costs;
    for (const auto& graph : classes) costs.push_back({std::vector<double>(graph->tasks().size(), 1), {}});
    const ClassTasks tasks(classes, costs, 2);
    std::vector<char> seen(tasks.size(), 0);
    std::size_t members = 0;
    for (const std::uint32_t node : tasks.topological_order()) {
      tasks.each_before(node, [&](std::uint32_t before) { EXPECT_EQ(seen[before], 1) << seed; });
      seen[node] = 1;
      members += tasks.members(node).size();
    }
    EXPECT_EQ(members, tasks.size());
  }
}

}  // namespace
}  // namespace weft::policy
