#include "runtime/policy/scheduling/timetable.h"

#include <gtest/gtest.h>

#include "runtime/policy/builtin/anneal.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "runtime/simulate/simulator.h"
#include "tests/runtime/links.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::policy {
namespace {

TEST(Timetable, FollowsQueuesEdgesAndAddedEdges) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});                                // 2
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});  // 5
  toy.compute("b", {graph::write(y)});                                // 3
  toy.compute("d", {graph::read(y)});                                 // 1
  const auto graph = toy.build();
  const cost::TaskCosts costs{.ns = {2, 5, 3, 1}, .cpu_ns = {0, 0, 0, 0}};
  const auto table_of = [&](const plan::Order& order) { return testing::timetable_of(*graph, order, costs, {}); };
  plan::Order order = testing::order_in(*graph, "a c b d");
  const Timetable table = table_of(order);
  EXPECT_EQ(table.start, (std::vector<double>{0, 2, 2, 5}));
  EXPECT_EQ(table.finish, (std::vector<double>{2, 7, 5, 6}));
  EXPECT_EQ(table.makespan, 7);

  const auto edge = [&](graph::EdgeKind kind, std::uint8_t distance) {
    return graph::Edge{graph->find_task("c"), graph->find_task("d"), kind, graph::EdgeReason::policy, distance,
                       graph::TensorId()};
  };
  order.added_edges = {edge(graph::EdgeKind::completes_before, 0)};
  EXPECT_EQ(table_of(order).makespan, 8);
  order.added_edges = {edge(graph::EdgeKind::issued_before, 0)};  // as plans have it between two streams
  EXPECT_EQ(table_of(order).makespan, 8);
  order.added_edges = {edge(graph::EdgeKind::completes_before, 1)};
  EXPECT_EQ(table_of(order).makespan, 7);
  // b in front of a in the queue.
  order = testing::order_in(*graph, "b a c d");
  EXPECT_EQ(table_of(order).makespan, 10);
}

struct Contending {
  std::shared_ptr<const graph::Graph> graph;
  cost::TaskCosts costs;
  PolicyOptions options;
};

Contending contending(std::uint64_t seed) {
  testing::Draws draws(seed);
  Contending result;
  result.graph = testing::random_graph(seed, {.channels = 3, .collective_percent = 45});
  for (const graph::Task& task : result.graph->tasks()) {
    const bool collective = graph::is_collective(task.operation);
    result.costs.ns.push_back(draws.chance(10) ? 0 : static_cast<double>(draws.between(1000, 50000)));
    result.costs.cpu_ns.push_back(collective ? result.costs.ns.back() * static_cast<double>(draws.below(3)) : 0);
  }
  cost::Machine machine;
  if (draws.chance(70)) machine.slowdowns = {{"add", "all_reduce", 1.5}};
  machine.shared_cores = draws.chance(50);
  result.options.compute_streams = static_cast<int>(draws.between(1, 3));
  result.options.machine = std::make_shared<const cost::Machine>(machine);
  result.options.link_of_channel = draws.chance(50) ? testing::one_link() : testing::own_links();
  return result;
}

/// The simulated step of an order, after a comparison with its timetable: with an arena of one tensor after the other
/// no plan waits for memory, so that the timetable is the simulator's.
double expect_the_simulators(const Contending& c, const plan::Order& order, std::uint64_t seed) {
  const plan::Plan plan = plan::make_plan(c.graph, order, "tried");
  plan::Order with_memory = order;
  with_memory.added_edges = plan.added_edges;
  simulate::SimulationOptions options;
  options.link_of_channel = c.options.link_of_channel;
  const double step = testing::simulate_plan(plan, c.costs, *c.options.machine, options).step_ns;
  EXPECT_NEAR(testing::timetable_of(*c.graph, with_memory, c.costs, c.options).makespan, step, 1e-6 * step) << seed;
  return step / testing::timetable_of(*c.graph, with_memory, c.costs, {}).makespan;
}

TEST(RunningLanes, TimetablesAreTheSimulators) {
  int slowed = 0, faster = 0, slower = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Contending c = contending(seed);
    const auto order_by = [&](const char* policy) {
      return testing::order_of(*make_policy(policy), *c.graph, c.options);
    };
    for (const char* policy : {"program", "random", "critical-path"})
      slowed += expect_the_simulators(c, order_by(policy), seed) > 1.01 ? 1 : 0;
    const plan::Order random = order_by("random");
    const auto of_times = [&](Contending other, std::vector<double> cost::TaskCosts::*times, const auto& factor) {
      testing::Draws draws(seed);
      other.costs.*times = other.costs.ns;
      for (double& ns : other.costs.*times) ns *= factor(draws);
      return expect_the_simulators(other, random, seed);
    };
    Contending one_link = c;
    one_link.options.link_of_channel = testing::one_link();
    const double latency = of_times(one_link, &cost::TaskCosts::link_ns,
                                    [](testing::Draws& draws) { return static_cast<double>(draws.below(4)) / 4; });
    faster += latency < 0.99 * expect_the_simulators(one_link, random, seed) ? 1 : 0;
    const double beside = of_times(c, &cost::TaskCosts::beside_ns,
                                   [](testing::Draws& draws) { return static_cast<double>(draws.between(2, 8)) / 2; });
    slower += beside > 1.01 * expect_the_simulators(c, random, seed) ? 1 : 0;
  }
  EXPECT_GE(slowed, 60);
  EXPECT_GE(faster, 15);
  EXPECT_GE(slower, 30);
}

TEST(RunningLanes, AListScheduleKnowsHowLongItsOrderTakes) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Contending c = contending(seed);
    ListScheduler scheduler(testing::class_tasks(*c.graph, c.costs, c.options), c.options, {});
    const double makespan = scheduler.run(upward_rank(scheduler.tasks()));
    const double step = testing::timetable_of(*c.graph, scheduler.orders().front(), c.costs, c.options).makespan;
    EXPECT_NEAR(makespan, step, 1e-6 * step) << seed;
  }
}

TEST(Sweep, IsNeverLongerThanItsStartAndOftenShorter) {
  int shorter = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Contending c = contending(seed);
    ListScheduler forward(testing::class_tasks(*c.graph, c.costs, c.options), c.options, {}),
        backward(testing::class_tasks(*c.graph, c.costs, c.options), c.options, {}, ListScheduler::Direction::backward);
    const std::vector<double> rank = upward_rank(forward.tasks());
    const double start = forward.run(rank);
    const Swept swept = sweep(forward, backward, rank, 6);
    EXPECT_LE(swept.makespan, start) << seed;
    EXPECT_EQ(forward.run(swept.priority), swept.makespan) << seed;
    shorter += swept.makespan < start ? 1 : 0;
  }
  EXPECT_GE(shorter, 8);
}

}  // namespace
}  // namespace weft::policy
