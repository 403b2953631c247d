#include "runtime/policy/scheduling/limited_lists.h"

#include <gtest/gtest.h>

#include "runtime/policy/builtin/fit_memory.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/links.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/policy/pipeline/random_pipeline.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

using Classes = std::vector<std::shared_ptr<const graph::Graph>>;

/// A time for each task by its name, so that all members of a collective have the same.
std::shared_ptr<const cost::CostModel> drawn_costs() {
  return testing::priced_tasks([](const graph::Task& task) {
    if (std::holds_alternative<graph::Receive>(task.operation)) return testing::TaskPrice();
    const std::size_t drawn = std::hash<std::string>{}(task.name.substr(0, task.name.find(".S")));
    return testing::TaskPrice{1000 + static_cast<double>(drawn % 5000)};
  });
}

struct SimulatedOrders {
  double simulated = 0;
  std::vector<plan::Plan> plans;
};

SimulatedOrders simulated_step(const Classes& classes, const std::vector<plan::Order>& orders,
                               const PolicyOptions& options) {
  SimulatedOrders step{.plans = testing::checked_plans_of(classes, orders)};
  step.simulated = testing::simulated(step.plans, costs_of_each(classes, options), options.link_of_channel).step_ns;
  return step;
}

TEST(LimitedLists, TheShortestListThatFits) {
  const auto graph = testing::training_step(8, true, 4096);
  PolicyOptions options{.cost_model = testing::named_costs({})};
  const graph::Classes one(&graph, 1);
  const std::vector<double> rank = upward_rank(LimitedLists(one, options).tasks());
  const auto scratch = [&](const LimitedOrders& found) {
    return plan::make_plan(graph, found.orders.front(), "list").scratch_bytes;
  };
  const std::int64_t most = scratch(LimitedLists(one, options).within(by_priority(rank), 0));
  for (const std::int64_t percent : {100, 90, 80, 70}) {
    SCOPED_TRACE(percent);
    options.memory_limit = most * percent / 100;
    const LimitedLists lists(one, options);
    const LimitedOrders plain = lists.within(by_priority(rank), 0), found = lists.shortest(by_priority(rank));
    EXPECT_EQ(found.makespan,
              testing::timetable_of(*graph, found.orders.front(), costs_of(*graph, options), options).makespan);
    EXPECT_EQ(found.fits(), scratch(found) <= options.memory_limit);
    if (!plain.fits()) continue;
    EXPECT_TRUE(found.fits());
    EXPECT_LE(found.makespan, plain.makespan);
    const auto scheduler = lists.scheduler({.limits = {options.memory_limit}});
    scheduler->run(rank);
    EXPECT_EQ(lists.fits()(*scheduler), lists.weigh(scheduler->orders()).fits());
  }
  options.memory_limit = 0;
  EXPECT_FALSE(LimitedLists(one, options).fits());
}

TEST(LimitedLists, LimitsShrinkUntilThePlanKeepsThem) {
  int kept_at_once = 0, kept_later = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto graph = testing::random_graph(seed, {.tasks = 60, .tensors = 30});
    const graph::Classes one(&graph, 1);
    const auto scratch = [&](const LimitedOrders& found) {
      return plan::make_plan(graph, found.orders.front(), "tried").scratch_bytes;
    };
    const std::vector<double> rank = upward_rank(LimitedLists(one, {}).tasks());
    const std::int64_t limit = scratch(LimitedLists(one, {}).within(by_priority(rank), 0)) * 9 / 10;
    const LimitedOrders found = LimitedLists(one, {.memory_limit = limit}).within(by_priority(rank), 0);
    EXPECT_EQ(found.excess, static_cast<double>(scratch(found)) / static_cast<double>(limit));
    EXPECT_LE(found.limits.front(), limit);
    if (found.fits()) (found.limits.front() == limit ? kept_at_once : kept_later) += 1;
  }
  EXPECT_GE(kept_at_once, 1);
  EXPECT_GE(kept_later, 1);
}

void expect_the_simulators_step(const Classes& classes, const char* policy, const PolicyOptions& options) {
  std::vector<plan::Order> orders = make_policy(policy)->orders(classes, options);
  const SimulatedOrders step = simulated_step(classes, orders, options);
  for (std::size_t k = 0; k < orders.size(); ++k) orders[k].added_edges = step.plans[k].added_edges;
  const double makespan = timetable_of(LimitedLists(classes, options).tasks(), orders, options).makespan;
  EXPECT_NEAR(makespan, step.simulated, 1e-6 * step.simulated);
}

// With the edges that plans add for memory, timetables are the simulator's, also of links that are shared.
TEST(LimitedLists, TimetablesAreTheSimulators) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Classes classes = testing::random_pipeline(seed, {});
    PolicyOptions options{.compute_streams = static_cast<int>(1 + seed % 2), .cost_model = drawn_costs()};
    options.link_of_channel = testing::own_links();
    for (const char* policy : {"critical-path", "random", "lhs", "1f1b"}) {
      SCOPED_TRACE(::testing::Message() << policy << ", seed " << seed);
      expect_the_simulators_step(classes, policy, options);
    }
  }
}

// A link carries two directions at once, each shared by the messages that go there.
TEST(LimitedLists, DirectionsOfALinkAreSharedByThemselves) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 6, .message = 900});
  PolicyOptions options{.cost_model = toy.prices()};
  options.link_of_channel = testing::one_link();
  expect_the_simulators_step(toy.classes(), "1f1b", options);
}

TEST(LimitedLists, AScheduleKnowsHowLongItTakes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Classes classes = testing::random_pipeline(seed, {2, graph::ChunkPlacement::v});
    const PolicyOptions options{.cost_model = drawn_costs()};
    const LimitedLists lists(classes, options);
    const auto scheduler = lists.scheduler({});
    const double makespan = scheduler->run(upward_rank(lists.tasks()));
    const auto orders = scheduler->orders();
    EXPECT_NEAR(timetable_of(lists.tasks(), orders, options).makespan, makespan, 1e-6 * makespan) << seed;
    EXPECT_EQ(lists.priority_of(orders).size(), lists.tasks().size());
  }
}

// Serial orders need least; list schedules keep limits between that and what they take without one.
TEST(LimitedLists, KeepEachClassWithinItsLimit) {
  int bound = 0;
  for (const std::int64_t micro_batches : {4, 8, 12}) {
    const testing::PipelineToy toy({.stages = 4, .micro_batches = micro_batches, .message = 100});
    const PolicyOptions free{.cost_model = toy.prices()};
    const std::int64_t one_by_one = testing::most_scratch(testing::checked_plans(toy.classes(), "1f1b", free));
    for (const char* name : {"critical-path", "lhs", "anneal:iterations=30", "portfolio:budget=30"}) {
      SCOPED_TRACE(name);
      PolicyOptions limited = free;
      limited.memory_limit = one_by_one;
      const std::int64_t wanted = testing::most_scratch(testing::checked_plans(toy.classes(), name, free));
      EXPECT_LE(testing::most_scratch(testing::checked_plans(toy.classes(), name, limited)), one_by_one);
      bound += wanted > one_by_one ? 1 : 0;
    }
  }
  EXPECT_GE(bound, 3);
}

// With the same memory a portfolio is never longer than a published schedule, by the simulator too.
TEST(LimitedLists, APortfolioIsNeverLongerThanItsMembers) {
  for (const double message : {0.0, 600.0}) {
    const testing::PipelineToy toy(
        {.stages = 3, .micro_batches = 6, .input = 1300, .weight = 700, .update = 100, .message = message});
    PolicyOptions options{.cost_model = toy.prices()};
    options.link_of_channel = testing::own_links();
    const auto step_of = [&](const char* name) {
      return simulated_step(toy.classes(), make_policy(name)->orders(toy.classes(), options), options).simulated;
    };
    const double found = step_of("portfolio:budget=100");
    for (const char* member : {"gpipe", "1f1b", "zb-h1", "pipe-list", "pipe-search", "critical-path", "lhs", "program"})
      EXPECT_LE(found, step_of(member) * (1 + 1e-9)) << member << ", message " << message;
  }
}

// Messages leave as early as they can, though a pass has many tasks.
TEST(LimitedLists, MicroBatchesDoNotGoLayerByLayer) {
  const testing::PipelineToy toy({.stages = 4, .micro_batches = 8, .pieces = 4});
  const PolicyOptions options{.cost_model = toy.prices(), .link_of_channel = testing::own_links()};
  const auto step_of = [&](const char* name) {
    return simulated_step(toy.classes(), make_policy(name)->orders(toy.classes(), options), options).simulated;
  };
  for (const char* name : {"critical-path", "lhs"}) EXPECT_LE(step_of(name), step_of("gpipe")) << name;
}

// Buffers of messages are used again, so memory doesn't grow with the number of micro-batches.
TEST(LimitedLists, BuffersOfMessagesAreUsedAgain) {
  const auto scratch = [](std::int64_t micro_batches) {
    const testing::PipelineToy toy(
        {.stages = 2, .micro_batches = micro_batches, .message = 100, .count = 4096, .saved = 16, .factors = {4, 1}});
    const PolicyOptions options{.cost_model = toy.prices()};
    return testing::checked_plans(toy.classes(), "critical-path", options)[1].scratch_bytes;
  };
  // The last stage is faster than the first one, so it takes what it receives at once.
  EXPECT_LE(scratch(24), scratch(6) + 4096 * 4);
}

}  // namespace
}  // namespace weft::policy
