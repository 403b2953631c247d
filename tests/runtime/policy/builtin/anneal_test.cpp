#include "runtime/policy/builtin/anneal.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/policy/builtin/list_policies.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

TEST(AnnealPolicy, FindsWhatTheLongestPathDoesNotSee) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  toy.collective("ca", graph::Channel::data, {graph::read_write(x)});
  toy.collective("cb", graph::Channel::data, {graph::read_write(y)});
  const auto graph = toy.build();
  // Both paths are 4 long. a first: 0-3, 3-5, then 3-4, 5-7; b first: 0-2, 2-5, then 2-4, 5-6 (Johnson's rule).
  const PolicyOptions options{.cost_model = testing::named_costs({{"a", 3}, {"ca", 1}, {"b", 2}, {"cb", 2}})};
  const cost::TaskCosts costs = costs_of(*graph, options);
  EXPECT_EQ(
      testing::timetable_of(*graph, testing::order_of(CriticalPathPolicy(), *graph, options), costs, options).makespan,
      7);
  const plan::Order order = testing::order_of(*make_policy("anneal:iterations=50"), *graph, options);
  EXPECT_EQ(testing::timetable_of(*graph, order, costs, options).makespan, 6);
  EXPECT_EQ(testing::sequence_of(*graph, order), "b cb a ca");
  const plan::Reason reason = testing::reason_of(*graph, order, "b");
  EXPECT_EQ(reason.table, &AnnealPolicy::kReasons);
  EXPECT_EQ(reason.code, AnnealPolicy::kBest);
  EXPECT_EQ(reason.numbers[0], 50U);
  EXPECT_GE(reason.ns[0], reason.ns[1]);
  EXPECT_EQ(reason.ns[1], 6);
}

TEST(AnnealPolicy, IsNeverLongerThanWhereItStarts) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = 3});
    std::map<std::string, double> ns;
    testing::Draws draws(seed);
    for (const graph::Task& task : graph->tasks()) ns[task.name] = static_cast<double>(draws.below(20));
    for (const std::int64_t limit : {0, 20000}) {
      const PolicyOptions options{
          .compute_streams = 2, .memory_limit = limit, .seed = seed, .cost_model = testing::named_costs(ns)};
      const cost::TaskCosts costs = costs_of(*graph, options);
      ListScheduler scheduler(testing::class_tasks(*graph, costs, options), options, {&options.memory_limit, 1});
      const double start = scheduler.run(upward_rank(scheduler.tasks()));
      const Annealed found = anneal(scheduler, upward_rank(scheduler.tasks()), 50, seed);
      EXPECT_EQ(found.first, start);
      EXPECT_LE(found.best, start);
      EXPECT_EQ(scheduler.run(found.priority), found.best);
      const plan::Order order = scheduler.orders().front();
      EXPECT_LE(testing::timetable_of(*graph, order, costs, options).makespan, found.best);
      EXPECT_EQ(testing::order_of(*make_policy("anneal:iterations=0"), *graph, options).sequence.size(),
                graph->tasks().size());
    }
  }
}

TEST(AnnealPolicy, ASearchKeepsOnlySchedulesThatFit) {
  const auto graph = testing::training_step(6, true, 4096);
  PolicyOptions options{.cost_model = testing::named_costs({{"r0", 3}, {"i3", 4}, {"g2", 5}})};
  const cost::TaskCosts costs = costs_of(*graph, options);
  ListScheduler forward(testing::class_tasks(*graph, costs, options), options, {}),
      backward(testing::class_tasks(*graph, costs, options), options, {}, ListScheduler::Direction::backward);
  const std::vector<double> rank = upward_rank(forward.tasks());
  int asked = 0;
  const FitsMemory none = [&](const ListScheduler&) {
    ++asked;
    return false;
  };
  EXPECT_EQ(anneal(forward, rank, 30, 1, none).best, std::numeric_limits<double>::infinity());
  EXPECT_GT(asked, 0);
  const double start = forward.run(rank);
  const SearchEffort effort{.moves = 60, .sweeps = 30};
  const double found = search(forward, backward, {&rank, 1}, effort, 1).best;
  EXPECT_LE(found, start);
  // A second start that is worse from the begin is dropped after its part.
  const std::vector<std::vector<double>> starts = {rank, std::vector<double>(rank.size(), 0)};
  EXPECT_LE(search(forward, backward, starts, effort, 1).best, start);
  const auto serial = testing::order_of(*make_policy("program:depth=0"), *graph, options);
  options.memory_limit = plan::make_plan(graph, serial, "program").scratch_bytes;
  const plan::Order order = testing::order_of(*make_policy("anneal:iterations=60"), *graph, options);
  EXPECT_LE(plan::make_plan(graph, order, "anneal").scratch_bytes, options.memory_limit);
}

TEST(Anneal, EffortFitsTheNumberOfTasks) {
  const SearchEffort usual = search_effort(std::nullopt, 600, 10'000);
  EXPECT_EQ(usual.moves, 600);
  EXPECT_EQ(search_effort(std::nullopt, 600, 100).moves, 1800) << "a short step is searched longer";
  EXPECT_EQ(search_effort(std::nullopt, 600, 100).sweeps, usual.sweeps);
  for (const std::size_t tasks : {100'000U, 1'000'000U, 100'000'000U}) {
    const SearchEffort less = search_effort(std::nullopt, 600, tasks), asked = search_effort(600, 1, tasks);
    EXPECT_LT(less.moves, usual.moves);
    EXPECT_GE(less.moves, 1);
    EXPECT_GE(less.sweeps, 1);
    EXPECT_EQ(asked.moves, 600);
    EXPECT_EQ(asked.sweeps, usual.sweeps);
  }
}

}  // namespace
}  // namespace weft::policy
