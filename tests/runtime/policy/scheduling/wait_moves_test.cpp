// Holding tasks back: where it makes a step shorter, and that it never makes one longer.
#include "runtime/policy/scheduling/wait_moves.h"

#include <gtest/gtest.h>

#include <utility>

#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/step_search.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/links.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/policy/pipeline/random_pipeline.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

/// a, then the urgent collective g, then c; h on another channel of the same link has time until the end of the step.
/// At once: h takes half of the link from g, which ends at 8, and c at 18. If h waits for g: 1 + 4 + 10.
std::shared_ptr<const graph::Graph> shared_link() {
  testing::ToyGraph toy;
  const graph::View out = toy.tensor("out", 8, graph::Role::parameter), w = toy.tensor("w", 8);
  const graph::View other = toy.tensor("other", 8, graph::Role::parameter);
  toy.compute("a", {graph::write(w)});
  toy.collective("g", graph::Channel::x, {graph::read_write(w)});
  toy.collective("h", graph::Channel::data, {graph::read_write(other)});
  toy.compute("c", {graph::read(w), graph::read_write(out)});
  return toy.build();
}

PolicyOptions one_link_options() {
  PolicyOptions options{.cost_model = testing::named_costs({{"a", 1}, {"g", 4}, {"h", 4}, {"c", 10}})};
  options.link_of_channel = testing::one_link();
  return options;
}

struct Ordered {
  ClassTasks tasks;
  std::vector<plan::Order> orders;
};

Ordered in_program_order(const graph::Graph& graph, const PolicyOptions& options) {
  plan::Order order = testing::order_of(*make_policy("program"), graph, options);
  order.added_edges.clear();
  return {testing::class_tasks(graph, costs_of(graph, options), options), {order}};
}

TEST(HoldBack, DelaysWhatSlowsAnUrgentTaskDown) {
  const auto graph = shared_link();
  const PolicyOptions options = one_link_options();
  const auto [tasks, orders] = in_program_order(*graph, options);
  EXPECT_EQ(timetable_of(tasks, orders, options).makespan, 18);
  const HeldBack held = hold_back(tasks, orders, options, 10);
  EXPECT_EQ(held.makespan, 15);
  EXPECT_EQ(held.waits, 1U);
  const plan::Order& order = held.orders.front();
  ASSERT_EQ(order.added_edges.size(), 1U);
  EXPECT_EQ(graph->task(order.added_edges.front().from).name, "g");
  EXPECT_EQ(graph->task(order.added_edges.front().to).name, "h");
  EXPECT_EQ(timetable_of(tasks, held.orders, options).makespan, 15);
  for (const plan::Placement& placement : order.sequence) {
    const plan::Reason& reason = order.reasons.at(placement.reason);
    EXPECT_EQ(reason.table == &kWaitReasons, graph->task(placement.task).name == "h");
  }
}

TEST(HoldBack, ChangesNothingWithoutTriesOrContention) {
  const auto graph = shared_link();
  PolicyOptions options = one_link_options();
  const auto [tasks, orders] = in_program_order(*graph, options);
  EXPECT_EQ(hold_back(tasks, orders, options, 0).orders, orders);
  const auto refused = [](const std::vector<plan::Order>&) { return false; };
  EXPECT_EQ(hold_back(tasks, orders, options, 10, refused).orders, orders);
  options.link_of_channel.clear();
  EXPECT_EQ(hold_back(tasks, orders, options, 10).orders, orders);
}

TEST(HoldBack, NeverMakesAStepLongerAndIsATimetable) {
  int shorter = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto graph =
        testing::random_graph(seed, {.tasks = 60, .tensors = 60, .channels = 3, .collective_percent = 45});
    cost::Machine machine;
    machine.slowdowns = {{"", "", 1.5}};
    PolicyOptions options{.compute_streams = static_cast<int>(1 + seed % 2),
                          .machine = std::make_shared<const cost::Machine>(machine)};
    options.link_of_channel = testing::one_link();
    options.cost_model = testing::priced_tasks([draws = testing::Draws(seed)](const graph::Task&) mutable {
      return testing::TaskPrice{static_cast<double>(draws.below(100))};
    });
    const auto [tasks, orders] = in_program_order(*graph, options);
    const HeldBack held = hold_back(tasks, orders, options, 100);
    const double before = timetable_of(tasks, orders, options).makespan;
    EXPECT_LE(held.makespan, before) << seed;
    EXPECT_NEAR(timetable_of(tasks, held.orders, options).makespan, held.makespan, 1e-9 * before) << seed;
    const plan::Plan plan = plan::make_plan(graph, held.orders.front(), "held");
    EXPECT_NEAR(testing::simulate_plan(plan, costs_of(*graph, options), machine,
                                       {.grid = {.x = 2, .z = 2, .data = 2}, .link_of_channel = testing::one_link()})
                    .step_ns,
                held.makespan, 1e-9 * before)
        << seed;
    shorter += held.waits > 0 ? 1 : 0;
  }
  EXPECT_GE(shorter, 10);
}

TEST(HoldBack, KeepsPipelinesFreeOfDeadlocks) {
  int shorter = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto classes = testing::random_pipeline(seed, {});
    cost::Machine machine;
    machine.slowdowns = {{"", "", 2}};
    const PolicyOptions options{.machine = std::make_shared<const cost::Machine>(machine)};
    const std::vector<plan::Order> start = make_policy("program")->orders(classes, options);
    const std::vector<cost::TaskCosts> costs = costs_of_each(classes, options);
    const ClassTasks tasks(classes, costs, start);
    const HeldBack held = hold_back(tasks, start, options, 50);
    EXPECT_LE(held.makespan, timetable_of(tasks, start, options).makespan) << seed;
    EXPECT_NEAR(timetable_of(tasks, held.orders, options).makespan, held.makespan, 1e-9 * held.makespan) << seed;
    testing::checked_plans_of(classes, held.orders);
    shorter += held.waits > 0 ? 1 : 0;
  }
  EXPECT_GE(shorter, 1);
}

TEST(HoldBack, IsAMoveOfTheSearches) {
  const auto graph = shared_link();
  const PolicyOptions options = one_link_options();
  const auto makespan = [&](const char* name) {
    const plan::Order order = testing::order_of(*make_policy(name), *graph, options);
    return testing::timetable_of(*graph, order, costs_of(*graph, options), options).makespan;
  };
  for (const char* name : {"portfolio:budget=10", "anneal:iterations=10", "exact:budget=10"})
    EXPECT_EQ(makespan(name), 15) << name;
  for (const char* name : {"portfolio:budget=0", "anneal:iterations=0"}) EXPECT_EQ(makespan(name), 18) << name;
}

TEST(StepSearch, TriesWaitsAndSaysWhetherItTriedAll) {
  const auto graph = shared_link();
  const PolicyOptions options = one_link_options();
  const auto [tasks, orders] = in_program_order(*graph, options);
  StepSearch search(tasks, options, 18, {});
  const StepSearch::Outcome outcome = search.search(10'000);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(search.makespan(), 15);
  EXPECT_EQ(timetable_of(tasks, search.orders({}), options).makespan, 15);

  StepSearch none(tasks, options, 15, {});
  EXPECT_TRUE(none.search(10'000).complete);
  EXPECT_TRUE(none.orders({}).empty()) << "nothing is shorter";

  StepSearch short_of_nodes(tasks, options, 18, {});
  EXPECT_FALSE(short_of_nodes.search(2).complete);

  StepSearch refused(tasks, options, 18, [](const std::vector<plan::Order>&) { return false; });
  EXPECT_FALSE(refused.search(10'000).complete) << "a shorter step was refused";
  EXPECT_TRUE(refused.orders({}).empty());
}

}  // namespace
}  // namespace weft::policy
