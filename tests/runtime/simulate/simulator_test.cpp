#include "runtime/simulate/simulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "runtime/simulate/bounds.h"
#include "tests/runtime/links.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::simulate {
namespace {

using testing::order_of;
using testing::ToyGraph;

cost::TaskCosts costs_of(const graph::Graph& graph, const std::map<std::string, double>& ns,
                         const std::map<std::string, double>& cpu_ns = {}) {
  cost::TaskCosts costs;
  for (const graph::Task& task : graph.tasks()) {
    costs.ns.push_back(ns.at(task.name));
    costs.cpu_ns.push_back(cpu_ns.contains(task.name) ? cpu_ns.at(task.name) : 0);
  }
  return costs;
}

/// "begin-end" of a task in the last step of a rank.
std::string when(const plan::Plan& plan, const Simulation& simulation, const std::string& task, std::size_t rank = 0) {
  return testing::time_of(plan, simulation.ranks.at(rank).steps.back(), task);
}

// All channels have their own links unless stated otherwise.
SimulationOptions options_of(std::vector<int> links = testing::own_links()) {
  SimulationOptions options;
  options.link_of_channel = std::move(links);
  return options;
}

/// a on compute0; then b on compute0, c on x and d on data, all at once.
struct Fan {
  Fan() {
    ToyGraph toy;
    const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
    toy.compute("a", {graph::write(p), graph::write(q), graph::write(r)});
    toy.compute("b", {graph::read(p)});
    toy.collective("c", graph::Channel::x, {graph::read_write(q)});
    toy.collective("d", graph::Channel::data, {graph::read_write(r)});
    const auto graph = toy.build();
    plan = testing::plan_in(graph, "a c d b");
  }
  Simulation run(const std::map<std::string, double>& ns, const cost::Machine& machine = {},
                 const SimulationOptions& options = options_of(), const std::map<std::string, double>& cpu = {}) const {
    return testing::simulate_plan(plan, costs_of(*plan.graph, ns, cpu), machine, options);
  }
  plan::Plan plan;
};

TEST(Simulator, OverlapsStreams) {
  const Fan fan;
  const Simulation result = fan.run({{"a", 10}, {"b", 5}, {"c", 20}, {"d", 7}});
  EXPECT_EQ(result.step_ns, 30);
  EXPECT_EQ(result.events, 4);
  ASSERT_EQ(result.ranks.size(), 1U);
  EXPECT_EQ(when(fan.plan, result, "a"), "0-10");
  EXPECT_EQ(when(fan.plan, result, "b"), "10-15");
  EXPECT_EQ(when(fan.plan, result, "c"), "10-30");
  EXPECT_EQ(when(fan.plan, result, "d"), "10-17");
  EXPECT_EQ(result.ranks[0].contention_ns, 0);
}

TEST(Simulator, CollectivesOnOneLinkShareItEvenly) {
  const Fan fan;
  const Simulation result = fan.run({{"a", 10}, {"b", 5}, {"c", 20}, {"d", 10}}, {}, options_of({0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(when(fan.plan, result, "d"), "10-30");  // at half of the rate
  EXPECT_EQ(when(fan.plan, result, "c"), "10-40");  // 10 of its 20 by then, the rest alone
  EXPECT_EQ(result.step_ns, 40);
}

TEST(Simulator, LatencyLeavesTheLinkToOthers) {
  const Fan fan;
  cost::TaskCosts costs = costs_of(*fan.plan.graph, {{"a", 10}, {"b", 5}, {"c", 20}, {"d", 10}});
  const auto step = [&](double c, double d) {
    costs.link_ns = costs.ns;
    costs.link_ns[fan.plan.graph->find_task("c").index()] = c;
    costs.link_ns[fan.plan.graph->find_task("d").index()] = d;
    return testing::simulate_plan(fan.plan, costs, {}, options_of({0, 0, 0, 0, 0, 0})).step_ns;
  };
  EXPECT_EQ(step(0, 0), 30);    // latency alone
  EXPECT_EQ(step(10, 5), 30);   // each needs half of the link
  EXPECT_EQ(step(20, 10), 40);  // bytes alone
  EXPECT_EQ(step(20, 5), 35);   // d needs half, so both have what they need of half a link; c's last 15 run alone
}

TEST(Simulator, ComputationsBesideACollectiveAreSlowedDown) {
  const Fan fan;
  cost::Machine machine;
  machine.slowdowns = {{"add", "all_reduce", 1.5}};
  const Simulation result = fan.run({{"a", 10}, {"b", 30}, {"c", 15}, {"d", 15}}, machine);
  EXPECT_EQ(when(fan.plan, result, "b"), "10-45");  // 10 of its 30 while they run, not slower for two than for one
  EXPECT_NEAR(result.ranks[0].contention_ns, 5, 1e-9);
  machine.slowdowns = {{"gemm", "all_reduce", 1.5}, {"add", "all_gather", 3}};
  EXPECT_EQ(fan.run({{"a", 10}, {"b", 30}, {"c", 15}, {"d", 15}}, machine).step_ns, 40);
}

TEST(Simulator, TransportsTakeCoresFromComputations) {
  const Fan fan;
  cost::Machine machine;
  machine.cores = 2;
  const std::map<std::string, double> ns = {{"a", 10}, {"b", 30}, {"c", 20}, {"d", 0}};
  EXPECT_EQ(fan.run(ns, machine, options_of(), {{"c", 20}}).step_ns, 40);  // its cores are its own
  machine.shared_cores = true;
  const Simulation half = fan.run(ns, machine, options_of(), {{"c", 20}});
  EXPECT_EQ(when(fan.plan, half, "c"), "10-30");
  EXPECT_EQ(when(fan.plan, half, "b"), "10-50");  // half of it in the first 20
  // A transport that takes both leaves none: b can begin its work when it ends.
  EXPECT_EQ(when(fan.plan, fan.run(ns, machine, options_of(), {{"c", 40}}), "b"), "10-60");
}

TEST(Simulator, TransportsThatWantMoreCoresThanThereAreGoSlower) {
  const Fan fan;
  cost::Machine machine;
  machine.cores = 1;
  machine.shared_cores = true;
  const Simulation result =
      fan.run({{"a", 10}, {"b", 30}, {"c", 20}, {"d", 20}}, machine, options_of(), {{"c", 20}, {"d", 20}});
  EXPECT_EQ(when(fan.plan, result, "c"), "10-50");
  EXPECT_EQ(when(fan.plan, result, "d"), "10-50");
  EXPECT_EQ(when(fan.plan, result, "b"), "10-80");  // no core until then
}

TEST(Simulator, TwoComputeStreamsShareTheCoresBesideATransport) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8, graph::Role::parameter);
  toy.compute("a", {graph::write(p)});
  toy.compute("b", {graph::write(q)});
  toy.collective("c", graph::Channel::x, {graph::read_write(r)});
  const auto graph = toy.build();
  const plan::Plan plan = testing::plan_in(graph, "a b@1 c");
  cost::Machine machine;
  machine.cores = 4;
  machine.shared_cores = true;
  const cost::TaskCosts costs = costs_of(*graph, {{"a", 10}, {"b", 40}, {"c", 30}}, {{"c", 60}});
  const Simulation result = testing::simulate_plan(plan, costs, machine, options_of());
  // Two cores are left for two streams of two: half of the rate each, until a ends and b has its two to itself.
  EXPECT_EQ(when(plan, result, "a"), "0-20");
  EXPECT_EQ(when(plan, result, "b"), "0-50");
}

TEST(Simulator, AStragglerHoldsUpItsGroup) {
  const Fan fan;
  SimulationOptions options = options_of();
  options.grid.x = 2;
  options.grid.data = 2;
  options.slow_rank = 3;
  const Simulation result = fan.run({{"a", 10}, {"b", 5}, {"c", 20}, {"d", 7}}, {}, options);
  ASSERT_EQ(result.ranks.size(), 4U);
  EXPECT_EQ(result.events, 16);
  // Rank 0 takes 30 for a. Ranks 0 and 1 differ in x, ranks 0 and 2 in data.
  EXPECT_EQ(when(fan.plan, result, "c", 0), "30-50");
  EXPECT_EQ(when(fan.plan, result, "c", 1), "10-50");  // there from 10 on
  EXPECT_EQ(when(fan.plan, result, "c", 2), "10-30");
  EXPECT_EQ(when(fan.plan, result, "d", 1), "10-17");
  EXPECT_EQ(when(fan.plan, result, "d", 2), "10-37");
  EXPECT_EQ(when(fan.plan, result, "b", 0), "30-45");
  EXPECT_EQ(result.step_ns, 50);
  // Rank 2 differs from rank 3 in x, and from rank 0 in data.
  SimulationOptions third = options;
  third.slowed = 2;
  const Simulation other = fan.run({{"a", 10}, {"b", 5}, {"c", 20}, {"d", 7}}, {}, third);
  EXPECT_EQ(when(fan.plan, other, "c", 3), "10-50");
  EXPECT_EQ(when(fan.plan, other, "d", 0), "10-37");
  EXPECT_EQ(when(fan.plan, other, "c", 0), "10-30");
  options.traced_ranks = 2;
  const Simulation fewer = fan.run({{"a", 10}, {"b", 5}, {"c", 20}, {"d", 7}}, {}, options);
  EXPECT_EQ(fewer.ranks.size(), 2U);
  EXPECT_EQ(fewer.step_ns, 50);
}

// A collective goes at the rate of its slowest member: rank 0 has its x group's sum beside the data group's.
TEST(Simulator, ACollectiveGoesAtTheRateOfItsSlowestMember) {
  const Fan fan;
  SimulationOptions options = options_of({0, 0, 0, 0, 0, 0});
  options.grid.x = 2;
  options.grid.data = 2;
  options.slow_rank = 2;
  const Simulation result = fan.run({{"a", 10}, {"b", 0}, {"c", 20}, {"d", 20}}, {}, options);
  // From 10: c of ranks 2 and 3, d of ranks 1 and 3, both of which rank 3 has at half of the rate. From 20 all four
  // run, and each rank has two.
  EXPECT_EQ(when(fan.plan, result, "c", 2), "10-50");
  EXPECT_EQ(when(fan.plan, result, "d", 1), "10-50");
  // At 50 the sums of the other ranks end; rank 0's sums have done 15 of 20, and it still has both.
  EXPECT_EQ(when(fan.plan, result, "c", 0), "20-60");
  EXPECT_EQ(when(fan.plan, result, "d", 0), "20-60");
}

TEST(Simulator, NoiseHasTheMeanAndDeviationAskedFor) {
  ToyGraph toy;
  std::vector<std::pair<std::string, std::string>> order;
  for (int i = 0; i < 4000; ++i) {
    const std::string name = std::to_string(i);
    toy.compute("t" + name, {graph::write(toy.tensor("x" + name, 1))});
    order.emplace_back("t" + name, "compute0");
  }
  const auto graph = toy.build();
  const plan::Plan plan = plan::make_plan(graph, order_of(*graph, 1, order), "mine");
  cost::TaskCosts costs{std::vector<double>(4000, 1e9), std::vector<double>(4000, 0)};
  SimulationOptions options = options_of();
  options.noise = 0.3;
  const Simulation result = testing::simulate_plan(plan, costs, {}, options);
  double squares = 0;
  for (const plan::TaskTime& time : result.ranks[0].steps[0].times[0]) {
    const double factor = static_cast<double>(time.end - time.begin) * 1e-9;
    squares += (factor - 1) * (factor - 1);
  }
  EXPECT_NEAR(result.step_ns, 4000 * 1e9, 4000 * 1e9 * 0.02);
  EXPECT_NEAR(std::sqrt(squares / 4000), 0.3, 0.02);
}

TEST(Simulator, RefusesOptionsOutOfRange) {
  const Fan fan;
  const std::map<std::string, double> ns = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};
  const auto refused = [&](auto change) {
    SimulationOptions options = options_of();
    change(options);
    EXPECT_THROW(fan.run(ns, {}, options), UserError);
  };
  refused([](SimulationOptions& options) { options.steps = 0; });
  refused([](SimulationOptions& options) { options.noise = -1; });
  refused([](SimulationOptions& options) { options.noise = NAN; });
  refused([](SimulationOptions& options) { options.slow_rank = 0; });
  refused([](SimulationOptions& options) { options.slowed = 1; });
  refused([](SimulationOptions& options) { options.slowed = -1; });
  EXPECT_THROW(testing::simulate_plan(fan.plan, {}, {}, options_of()), std::logic_error);
  EXPECT_THROW(fan.run(ns, {}, options_of({0, 0})), std::logic_error);
}

cost::TaskCosts random_costs(const graph::Graph& graph, testing::Draws& draws) {
  cost::TaskCosts costs;
  for (const graph::Task& task : graph.tasks()) {
    costs.ns.push_back(draws.chance(15) ? 0 : static_cast<double>(draws.between(1, 1000)));
    costs.cpu_ns.push_back(
        graph::is_collective(task.operation) ? costs.ns.back() * static_cast<double>(draws.between(0, 4)) / 2 : 0);
  }
  return costs;
}

cost::Machine random_machine(testing::Draws& draws) {
  cost::Machine machine;
  machine.cores = static_cast<double>(draws.between(1, 4));
  machine.shared_cores = draws.chance(50);
  if (draws.chance(50)) machine.slowdowns = {{"", "all_reduce", 1 + static_cast<double>(draws.between(0, 10)) / 10}};
  return machine;
}

TEST(Simulator, IsNeverFasterThanAnyLowerBound) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    testing::Draws draws(seed);
    testing::RandomGraphOptions size;
    size.channels = 3;
    const auto graph = testing::random_graph(seed, size);
    const int streams = static_cast<int>(draws.between(1, 3));
    const plan::Plan plan =
        plan::make_plan(graph, testing::RandomPolicy(seed, 3).order(*graph, {.compute_streams = streams}), "random");
    const cost::TaskCosts costs = random_costs(*graph, draws);
    const cost::Machine machine = random_machine(draws);
    SimulationOptions options = draws.chance(50) ? options_of() : options_of({0, 0, 0, 0, 1, 1});
    const Bounds bounds = lower_bounds({&graph, 1}, {&costs, 1}, machine, streams, options.link_of_channel);
    const double step = testing::simulate_plan(plan, costs, machine, options).step_ns;
    for (const double bound : {bounds.critical_path, bounds.work, bounds.one_machine, bounds.energy}) {
      EXPECT_GE(step, bound * (1 - 1e-9)) << seed;
    }
    EXPECT_GE(bounds.one_machine, bounds.work * (1 - 1e-9)) << seed;
    EXPECT_GE(bounds.one_machine, bounds.critical_path * (1 - 1e-9)) << seed;
    // Somebody always works, at worst three collectives on one link, or without a core.
    EXPECT_LE(step, 10 * std::accumulate(costs.ns.begin(), costs.ns.end(), 0.0)) << seed;
  }
}

// A single rank represents all: simulating all ranks, nearly identical, gives the same times.
TEST(Simulator, OneRankStandsForIdenticalRanks) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    testing::Draws draws(seed);
    testing::RandomGraphOptions size;
    size.channels = 3;
    const auto graph = testing::random_graph(seed, size);
    const plan::Plan plan =
        plan::make_plan(graph, testing::RandomPolicy(seed).order(*graph, {.compute_streams = 2}), "random");
    const cost::TaskCosts costs = random_costs(*graph, draws);
    const cost::Machine machine = random_machine(draws);
    SimulationOptions options = options_of({0, 0, 0, 0, 1, 1});
    options.grid.x = options.grid.z = 2;
    options.grid.data = 3;
    const Simulation one = testing::simulate_plan(plan, costs, machine, options);
    options.slow_rank = 1 + 1e-12;
    const Simulation all = testing::simulate_plan(plan, costs, machine, options);
    ASSERT_EQ(all.ranks.size(), 12U);
    EXPECT_NEAR(one.step_ns, all.step_ns, 1e-6 * one.step_ns) << seed;
    EXPECT_EQ(all.events, 12 * one.events);
    for (const SimulatedRank& rank : all.ranks) testing::expect_order_in_time(plan, rank.steps);
  }
}

}  // namespace
}  // namespace weft::simulate
