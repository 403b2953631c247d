#include "runtime/policy/rewrite_stages_to_fit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/policy/fit_memory.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

testing::PipelineToy keeping_toy() {
  return testing::PipelineToy({.stages = 3, .micro_batches = 6, .count = 16, .saved = 8192});
}

std::int64_t most_scratch(const std::vector<plan::Plan>& plans) {
  std::int64_t most = 0;
  for (const plan::Plan& plan : plans) most = std::max(most, plan.scratch_bytes);
  return most;
}

// The other stage sends a message once.
TEST(RecomputeOfStages, KeepsWhatMessagesBrought) {
  const testing::PipelineToy toy = keeping_toy();
  const plan::Rewrite recompute = plan::RecomputeLayers{};
  for (const auto& plain : toy.classes()) {
    const auto rewritten = plan::rewrite(plain, {&recompute, 1});
    const auto count = [](const graph::Graph& graph, auto&& holds) {
      return std::ranges::count_if(graph.tasks(), holds);
    };
    const auto receives = [](const graph::Task& task) {
      return std::holds_alternative<graph::Receive>(task.operation);
    };
    const auto computes = [](const graph::Task& task) { return !graph::is_collective(task.operation); };
    EXPECT_EQ(count(*rewritten, receives), count(*plain, receives));
    EXPECT_EQ(count(*rewritten, computes), count(*plain, computes) + 6);
  }
}

// With little more than one micro-batch's activations a pipeline can't be busy, unless they are computed again.
TEST(RecomputeOfStages, MakesAStepShorterThatIsShortOfMemory) {
  const testing::PipelineToy toy = keeping_toy();
  PolicyOptions options{.cost_model = toy.prices()};
  options.memory_limit = most_scratch(testing::checked_plans(toy.classes(), "program", options)) * 6 / 5;
  const auto policy = make_policy("portfolio:budget=20");
  const JointDecision decision = decide_together(toy.classes(), *policy, options);
  std::vector<plan::Plan> plans;
  bool recomputes = false;
  for (std::size_t k = 0; k < decision.graphs.size(); ++k) {
    plans.push_back(plan::make_plan(decision.graphs[k], decision.orders[k], "tried"));
    EXPECT_LE(plans.back().scratch_bytes, options.memory_limit);
    recomputes = recomputes || !decision.rewrites[k].empty();
    const plan::Selection* selection = plan::selection_of(decision.orders[k].reasons);
    ASSERT_NE(selection, nullptr);
    EXPECT_EQ(selection->rewrites, plan::to_string(std::span<const plan::Rewrite>(decision.rewrites[k])));
  }
  EXPECT_TRUE(recomputes);
  EXPECT_TRUE(plan::check(testing::pointers_to(plans)).empty());
  std::vector<plan::Plan> plain;
  const std::vector<plan::Order> orders = policy->orders(toy.classes(), options);
  for (std::size_t k = 0; k < orders.size(); ++k)
    plain.push_back(plan::make_plan(toy.classes()[k], orders[k], "tried"));
  simulate::SimulationOptions simulation;
  simulation.grid = toy.grid();
  const auto step_of = [&](const std::vector<plan::Plan>& tried) {
    std::vector<cost::TaskCosts> costs;
    for (const plan::Plan& plan : tried) costs.push_back(toy.prices()->costs(*plan.graph));
    return simulate::simulate_together(testing::pointers_to(tried), costs, {}, simulation).step_ns;
  };
  EXPECT_LT(step_of(plans), 0.9 * step_of(plain));
}

TEST(RecomputeOfStages, NothingFitsIntoVeryLittle) {
  const testing::PipelineToy toy = keeping_toy();
  const PolicyOptions options{.memory_limit = 4096, .cost_model = toy.prices()};
  const std::vector<std::vector<plan::Rewrite>> given(3);
  EXPECT_FALSE(find_fitting_stages(toy.classes(), given, {true, true, true}, options));
  EXPECT_THROW(decide_together(toy.classes(), *make_policy("anneal:iterations=5"), options), UserError);
}

}  // namespace
}  // namespace weft::policy
