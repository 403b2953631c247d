#include "runtime/policy/scheduling/list_schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "graph/analysis.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

std::vector<graph::TaskId> tasks_of(const plan::Order& order) {
  std::vector<graph::TaskId> tasks;
  for (const plan::Placement& placement : order.sequence) tasks.push_back(placement.task);
  return tasks;
}

TEST(ListScheduler, IsTheOrderThatTheEvaluatorSees) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = seed % 4});
    const PolicyOptions options{.compute_streams = static_cast<int>(1 + seed % 3)};
    cost::TaskCosts costs = costs_of(*graph, options);
    testing::Draws draws(seed);
    for (double& ns : costs.ns) ns = static_cast<double>(draws.below(10));  // some take no time at all
    ListScheduler scheduler(testing::class_tasks(*graph, costs, options), options, {});
    std::vector<double> priority;
    for (std::size_t i = 0; i < costs.ns.size(); ++i) priority.push_back(static_cast<double>(draws.below(7)));
    for (const auto& priorities : {priority, upward_rank(scheduler.tasks())}) {
      const double makespan = scheduler.run(priorities);
      const plan::Order order = scheduler.orders().front();
      EXPECT_EQ(makespan, testing::timetable_of(*graph, order, costs, options).makespan);
    }
  }
}

TEST(ListScheduler, GathersWaitForTheirTurn) {
  const auto graph = testing::training_step(4);
  const auto starts = [&](std::int64_t ahead) {
    const PolicyOptions options{.gathers_ahead = ahead, .cost_model = testing::named_costs({})};
    const cost::TaskCosts costs = costs_of(*graph, options);
    ListScheduler scheduler(testing::class_tasks(*graph, costs, options), options, {});
    scheduler.run(upward_rank(scheduler.tasks()));
    const plan::Order order = scheduler.orders().front();
    const std::vector<double> start = testing::timetable_of(*graph, order, costs, options).start;
    std::map<std::string, double> by_name;
    for (std::size_t i = 0; i < start.size(); ++i) by_name[graph->tasks()[i].name] = start[i];
    return by_name;
  };
  auto all = starts(0);  // every task takes 1
  EXPECT_EQ(all["g3"], 3);
  for (const std::int64_t ahead : {1, 2}) {
    SCOPED_TRACE(ahead);
    auto some = starts(ahead);
    for (int layer = static_cast<int>(ahead) + 1; layer < 4; ++layer) {
      const std::string number = std::to_string(layer), earlier = std::to_string(layer - 1 - static_cast<int>(ahead));
      EXPECT_GE(some["g" + number], some["f" + earlier] + 1);
    }
  }
  EXPECT_EQ(starts(16), all);
}

TEST(ListScheduler, ComputationsTakeTheFirstIdleStream) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8), z = toy.tensor("z", 8);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  toy.compute("c", {graph::write(z)});
  const auto graph = toy.build();
  const PolicyOptions options{.compute_streams = 2, .cost_model = testing::named_costs({{"a", 3}, {"b", 2}, {"c", 1}})};
  const cost::TaskCosts costs = costs_of(*graph, options);
  ListScheduler scheduler(testing::class_tasks(*graph, costs, options), options, {});
  EXPECT_EQ(scheduler.run(costs.ns), 3);
  const plan::Order order = scheduler.orders().front();
  EXPECT_EQ(testing::sequence_of(*graph, order), "a b c");
  EXPECT_EQ(order.sequence[0].stream.value, 0U);
  EXPECT_EQ(order.sequence[1].stream.value, 1U);
  EXPECT_EQ(order.sequence[2].stream.value, 1U);  // free at 2, the first one at 3
}

TEST(ListScheduler, NeverNeedsMoreMemoryThanTheLimitWhereTheProgramDoesNot) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto graph = testing::random_graph(seed, {.tasks = 60, .channels = 3, .most_elements = 64});
    MemoryForecast forecast(*graph);
    std::int64_t program = 0;
    for (std::size_t i = 0; i < graph->tasks().size(); ++i) program = std::max(program, forecast.peak_with(i));
    const PolicyOptions options{.compute_streams = 2, .memory_limit = program};
    const cost::TaskCosts costs = costs_of(*graph, options);
    ListScheduler scheduler(testing::class_tasks(*graph, costs, options), options, {&options.memory_limit, 1});
    testing::Draws draws(seed);
    std::vector<double> priority;
    for (std::size_t i = 0; i < costs.ns.size(); ++i) priority.push_back(static_cast<double>(draws.below(1000)));
    scheduler.run(priority);
    const plan::Order order = scheduler.orders().front();
    ASSERT_EQ(order.sequence.size(), graph->tasks().size());
    EXPECT_EQ(graph::why_not_topological(*graph, tasks_of(order)), "");
    EXPECT_LE(graph::liveness(*graph, tasks_of(order)).peak_bytes, program);
  }
}

}  // namespace
}  // namespace weft::policy
