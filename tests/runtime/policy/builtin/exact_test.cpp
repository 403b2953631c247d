#include "runtime/policy/builtin/exact.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/timetable.h"
#include "runtime/simulate/report.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

TEST(ExactPolicy, IsNeverLongerThanPortfolioAndTheSameTwice) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = 3});
    const PolicyOptions options{.compute_streams = static_cast<int>(1 + seed % 2), .seed = seed};
    const auto order = [&](const char* name) { return testing::order_of(*make_policy(name), *graph, options); };
    const auto makespan = [&](const plan::Order& of) {
      return testing::timetable_of(*graph, of, costs_of(*graph, options), options).makespan;
    };
    const plan::Order exact = order("exact:budget=10,nodes=20000");
    EXPECT_LE(makespan(exact), makespan(order("portfolio:budget=10"))) << seed;
    EXPECT_EQ(exact, order("exact:budget=10,nodes=20000")) << seed;
  }
}

TEST(ExactPolicy, KeepsTheMemoryLimit) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = 3});
    const std::int64_t limit =
        plan::make_plan(graph, testing::order_of(*make_policy("serial"), *graph), "serial").scratch_bytes;
    const plan::Order order =
        testing::order_of(*make_policy("exact:budget=10,nodes=20000"), *graph, {.memory_limit = limit});
    EXPECT_LE(plan::make_plan(graph, order, "exact").scratch_bytes, limit) << seed;
  }
}

// One computation waits for each collective, and nothing hides the first: 1 + 4 + 1 is the longest path.
TEST(ExactPolicy, SaysWhatItProved) {
  testing::ToyGraph toy;
  const graph::View out = toy.tensor("out", 8, graph::Role::parameter), w = toy.tensor("w", 8);
  toy.compute("a", {graph::write(w)});
  toy.collective("g", graph::Channel::x, {graph::read_write(w)});
  toy.compute("c", {graph::read(w), graph::read_write(out)});
  const auto graph = toy.build();
  const plan::Order order =
      testing::order_of(*make_policy("exact:budget=10"), *graph, {.cost_model = testing::named_costs({{"g", 4}})});
  const plan::Selection* selection = plan::selection_of(order.reasons);
  ASSERT_NE(selection, nullptr);
  EXPECT_EQ(selection->makespan_ns, 6);
  EXPECT_EQ(selection->proof, plan::Proof::optimal);
  simulate::Problem problem;
  problem.classes = {graph};
  problem.grid.x = 2;
  problem.options.cost_model = testing::named_costs({{"g", 4}});
  simulate::Report report = simulate::report_plan(problem, named_policy("exact:budget=10"));
  EXPECT_EQ(report.proof(), plan::Proof::optimal);
  problem.options.cost_model = testing::named_costs({{"g", 5}});
  simulate::simulate_again(report, problem);
  EXPECT_EQ(report.proof(), plan::Proof::none) << "it was proved under other costs";
  EXPECT_EQ(simulate::report_plan(problem, named_policy("portfolio:budget=10")).proof(), plan::Proof::none);
  const plan::Order without =
      testing::order_of(*make_policy("exact:budget=10,nodes=0"), *graph, {.compute_streams = 2});
  EXPECT_FALSE(plan::selection_of(without.reasons)->order.empty());
}

// A stage's ranks are a class, and windows take tasks of several.
TEST(ExactPolicy, IsBestOfTheOrdersOfASmallPipeline) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 4, .message = 300, .factors = {1, 1.5, 1}});
  const PolicyOptions options{.cost_model = toy.prices()};
  const auto makespan = [&](const std::string& name) {
    return timetable_of(toy.classes(), make_policy(name)->orders(toy.classes(), options), toy.costs(), options)
        .makespan;
  };
  const std::string exact = "exact:budget=60,nodes=20000";
  const double least = makespan(exact);
  for (const std::string& name : testing::with_short_searches(pipeline_policy_names())) {
    if (make_policy(name)->chunks() != graph::PipelineChunks()) continue;
    EXPECT_LE(least, makespan(name) * (1 + 1e-12)) << name;
  }
  const std::vector<plan::Plan> plans = testing::checked_plans(toy.classes(), exact, options);
  const plan::Selection* selection = plan::selection_of(plans.back().reasons);
  ASSERT_NE(selection, nullptr);
  EXPECT_TRUE(selection->order.starts_with("exact search from ")) << selection->order;
}

TEST(ExactPolicy, RefusesAWindowOfOneTask) {
  EXPECT_THROW(make_policy("exact:window=1"), UserError);
}

}  // namespace
}  // namespace weft::policy
