#include "runtime/policy/scheduling/window_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/limited_lists.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/all_orders.h"
#include "tests/runtime/links.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/policy/pipeline/random_pipeline.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

/// Costs from 0 to 9, so that orders tie and tasks take no time.
std::shared_ptr<const cost::CostModel> costs_of_seed(std::uint64_t seed) {
  return testing::priced_tasks([draws = testing::Draws(seed)](const graph::Task&) mutable {
    const auto ns = static_cast<double>(draws.below(10));
    return testing::TaskPrice{ns, ns / 2};
  });
}

/// Collectives make computations take half as long again, and all channels share a link.
PolicyOptions contended(std::uint64_t seed) {
  cost::Machine machine;
  machine.slowdowns = {{"", "", 1.5}};
  PolicyOptions options{.cost_model = costs_of_seed(seed), .machine = std::make_shared<const cost::Machine>(machine)};
  options.link_of_channel = testing::one_link();
  return options;
}

WindowSearch search_from_program(const graph::Graph& graph, const PolicyOptions& options,
                                 WindowSearch::Accepts accepts = {}) {
  plan::Order order = testing::order_of(*make_policy("program"), graph, options);
  order.added_edges.clear();
  return {testing::class_tasks(graph, costs_of(graph, options), options), options, {order}, std::move(accepts)};
}

TEST(WindowSearch, OfAWholeStepFindsTheBestOfAllOrders) {
  int improved = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto graph =
        testing::random_graph(seed, {.tasks = 8, .tensors = 10, .channels = 1 + seed % 3, .collective_percent = 45});
    const PolicyOptions options =
        seed % 2 == 0 ? contended(seed) : PolicyOptions{.cost_model = contended(seed).cost_model};
    const cost::TaskCosts costs = costs_of(*graph, options);
    const double least = testing::least_of_all_orders(*graph, [&](const plan::Order& order) {
      return testing::timetable_of(*graph, order, costs, options).makespan;
    });
    WindowSearch search = search_from_program(*graph, options);
    const double before = search.makespan();
    EXPECT_LE(search.bound(), least * (1 + 1e-12)) << seed;
    const WindowSearch::Outcome outcome = search.search(0, search.tasks(), 10'000'000);
    EXPECT_TRUE(outcome.complete) << seed;
    EXPECT_NEAR(search.makespan(), least, 2e-3) << seed;
    EXPECT_EQ(outcome.shorter, search.makespan() < before) << seed;
    EXPECT_NEAR(testing::timetable_of(*graph, search.orders().front(), costs_of(*graph, options), options).makespan,
                search.makespan(), 1e-9)
        << seed;
    improved += outcome.shorter ? 1 : 0;
  }
  EXPECT_GE(improved, 10) << "program order is nearly always the best: the graphs tell nothing";
}

TEST(WindowSearch, OfAPartNeverMakesTheStepLonger) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto graph = testing::random_graph(seed, {.tasks = 40, .channels = 3});
    const PolicyOptions options = contended(seed);
    WindowSearch search = search_from_program(*graph, options);
    for (std::size_t first = 0; first + 8 <= search.tasks(); first += 4) {
      const double before = search.makespan();
      const WindowSearch::Outcome outcome = search.search(first, 8, 100'000);
      EXPECT_EQ(outcome.shorter, search.makespan() < before);
      EXPECT_LE(search.makespan(), before);
      EXPECT_NEAR(testing::timetable_of(*graph, search.orders().front(), costs_of(*graph, options), options).makespan,
                  search.makespan(), 1e-9);
    }
    EXPECT_GE(search.makespan(), search.bound() * (1 - 1e-12));
  }
}

// g takes 4, and a and b, of 1 and 4, are free to run: b hides it, and c follows g.
TEST(WindowSearch, TakesNoOrderThatIsRefused) {
  testing::ToyGraph toy;
  const graph::View out = toy.tensor("out", 8, graph::Role::parameter),
                    other = toy.tensor("other", 8, graph::Role::parameter);
  const graph::View w = toy.tensor("w", 8);
  toy.compute("a", {graph::read_write(out)});
  toy.collective("g", graph::Channel::z_gather, {graph::write(w)});
  toy.compute("c", {graph::read(w)});
  toy.compute("b", {graph::read_write(other)});
  const auto graph = toy.build();
  const PolicyOptions options{.cost_model = testing::named_costs({{"a", 1}, {"g", 4}, {"c", 1}, {"b", 4}})};
  const auto searched = [&](const WindowSearch::Accepts& accepts) {
    WindowSearch search = search_from_program(*graph, options, accepts);
    EXPECT_EQ(search.makespan(), 9);
    const bool complete = search.search(0, 4, 1000).complete;
    return std::pair(search.makespan(), complete);
  };
  EXPECT_EQ(searched({}), std::pair(6.0, true));
  EXPECT_EQ(searched([](const auto&) { return false; }), std::pair(9.0, false)) << "refused orders leave it open";
}

// The step of a pipeline is played in time as its list schedules are, and stays one order of starts.
TEST(WindowSearch, MakesPipelinesShorterWithoutADeadlock) {
  int shorter = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const auto classes = testing::random_pipeline(seed, {});
    const PolicyOptions options =
        seed % 2 == 0 ? contended(seed) : PolicyOptions{.cost_model = contended(seed).cost_model};
    const std::vector<plan::Order> start = make_policy("program")->orders(classes, options);
    const std::vector<cost::TaskCosts> costs = costs_of_each(classes, options);
    WindowSearch search(ClassTasks(classes, costs, start), options, start, {});
    const double before = search.makespan();
    EXPECT_NEAR(before, timetable_of(classes, start, costs, options).makespan, 1e-9) << seed;
    for (std::size_t first = 0; first < search.tasks(); first += 8)
      search.search(first, std::min<std::size_t>(16, search.tasks() - first), 2'000);
    EXPECT_GE(search.makespan(), search.bound() * (1 - 1e-12)) << seed;
    const std::vector<plan::Order> orders = search.orders();
    EXPECT_NEAR(timetable_of(classes, orders, costs, options).makespan, search.makespan(), 1e-9) << seed;
    testing::checked_plans_of(classes, orders);
    shorter += search.makespan() < before ? 1 : 0;
  }
  EXPECT_GE(shorter, 4);
}

TEST(WindowSearch, EndsWithItsBudget) {
  const auto graph = testing::random_graph(1, {.tasks = 60, .channels = 3});
  const PolicyOptions options = contended(1);
  WindowSearch search = search_from_program(*graph, options);
  const WindowSearch::Outcome outcome = search.search(0, search.tasks(), 500);
  EXPECT_FALSE(outcome.complete);
  EXPECT_LE(outcome.nodes, 510);
}

}  // namespace
}  // namespace weft::policy
