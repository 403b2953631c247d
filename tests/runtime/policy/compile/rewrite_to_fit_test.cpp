#include "runtime/policy/compile/rewrite_to_fit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/runtime/policy/deep_step.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

constexpr int kFittedLayers = 6;
constexpr std::int64_t kInner = 1024, kWeight = 512;

class RewriteToFit : public ::testing::Test {
 protected:
  FittingRewrites find(std::int64_t limit, double gather, double inner) {
    const auto rewritten = [this](const std::vector<std::vector<plan::Rewrite>>& more) {
      return std::vector{plan::rewrite(graph_, more.front())};
    };
    return find_fitting_rewrites(
        1, rewritten, {true}, {.memory_limit = limit, .cost_model = testing::deep_costs(kFittedLayers, gather, inner)});
  }
  std::int64_t scratch(const std::string& rewrites) const { return testing::serial_scratch(graph_, rewrites); }
  static std::string text(const FittingRewrites& found) {
    return found.rewrites.empty() ? "" : plan::to_string(std::span<const plan::Rewrite>(found.rewrites.front()));
  }

  std::shared_ptr<const graph::Graph> graph_ = testing::deep_step(kFittedLayers, kInner, kWeight);
};

TEST_F(RewriteToFit, TheFirstLayersGiveMemoryBack) {
  constexpr std::int64_t kFew = 256;  // bytes of other tensors, which are alive elsewhere
  EXPECT_NEAR(static_cast<double>(scratch("") - scratch("recompute=0-1")), 2 * kInner * 4, kFew);
  EXPECT_NEAR(static_cast<double>(scratch("") - scratch("reshard=0-1")), 2 * kWeight * 4, kFew);
  EXPECT_LT(scratch("recompute=0-1"), scratch("recompute=4-5"));
}

TEST_F(RewriteToFit, AsFewLayersAsFitAreComputedAgainIfGathersAreDear) {
  for (int layers = 1; layers < kFittedLayers; ++layers) {
    const std::string rewrites = layers == 1 ? "recompute=0" : "recompute=0-" + std::to_string(layers - 1);
    const FittingRewrites found = find(scratch(rewrites), 1000, 1);
    EXPECT_TRUE(found.possible);
    EXPECT_EQ(text(found), rewrites);
    ASSERT_EQ(found.graphs.size(), 1U);
    EXPECT_EQ(found.graphs.front()->fingerprint(), plan::rewrite(graph_, found.rewrites.front())->fingerprint());
    EXPECT_GE(found.priced, 1U);
  }
}

TEST_F(RewriteToFit, WeightsAreGatheredAgainIfComputingIsDear) {
  EXPECT_EQ(text(find(scratch("reshard"), 1, 1000)), "reshard=0-4");
}

TEST_F(RewriteToFit, BothIfNeitherIsEnough) {
  const std::int64_t least = scratch("recompute=0-4;reshard=0-4");
  ASSERT_LT(least, scratch("recompute=0-4"));
  ASSERT_LT(least, scratch("reshard"));
  const FittingRewrites found = find(least, 10, 10);
  EXPECT_EQ(text(found), "recompute=0-4;reshard=0-4");  // the last layer's are needed again at once
  EXPECT_EQ(found.least.scratch_bytes, std::vector{least});
}

TEST_F(RewriteToFit, NothingIsFoundBelowTheLeast) {
  const std::int64_t least = scratch("recompute;reshard");
  const FittingRewrites found = find(least - 1, 1, 1);
  EXPECT_TRUE(found.possible);
  EXPECT_TRUE(found.rewrites.empty());
  EXPECT_TRUE(found.graphs.empty());
  EXPECT_EQ(found.priced, 0U);
  EXPECT_EQ(found.least.scratch_bytes, std::vector{least});
}

TEST_F(RewriteToFit, APlainGraphThatFitsIsThePlainestChoice) {
  const FittingRewrites found = find(2 * scratch(""), 10, 10);
  EXPECT_TRUE(found.rewrites.empty());
  EXPECT_TRUE(found.graphs.empty());
}

TEST_F(RewriteToFit, WhatIsDoneAlreadyIsLeft) {
  graph_ = plan::rewrite(graph_, plan::parse_rewrites("recompute=0,2"));
  const FittingRewrites found = find(scratch("recompute=0-3"), 1000, 1);
  EXPECT_EQ(text(found), "recompute=1,3");
  graph_ = plan::rewrite(graph_, plan::parse_rewrites("recompute;reshard"));
  EXPECT_FALSE(find(1, 1, 1).possible);
}

testing::PipelineToy keeping_toy() {
  return testing::PipelineToy({.stages = 3, .micro_batches = 6, .count = 16, .saved = 8192});
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
  options.memory_limit = testing::most_scratch(testing::checked_plans(toy.classes(), "program", options)) * 6 / 5;
  const auto policy = make_policy("portfolio:budget=20");
  const Decision decision = decide(toy.classes(), *policy, options);
  const std::vector<plan::Plan> plans = testing::checked_plans_of(decision.graphs, decision.orders);
  EXPECT_LE(testing::most_scratch(plans), options.memory_limit);
  bool recomputes = false;
  for (std::size_t k = 0; k < decision.graphs.size(); ++k) {
    recomputes = recomputes || !decision.rewrites[k].empty();
    const plan::Selection* selection = plan::selection_of(decision.orders[k].reasons);
    ASSERT_NE(selection, nullptr);
    EXPECT_EQ(selection->rewrites, plan::to_string(std::span<const plan::Rewrite>(decision.rewrites[k])));
  }
  EXPECT_TRUE(recomputes);
  const auto plain = testing::checked_plans_of(toy.classes(), policy->orders(toy.classes(), options));
  const double step = testing::simulated(plans, costs_of_each(decision.graphs, options)).step_ns;
  EXPECT_LT(step, 0.9 * testing::simulated(plain, toy.costs()).step_ns);
}

TEST(RecomputeOfStages, NothingFitsIntoVeryLittle) {
  const testing::PipelineToy toy = keeping_toy();
  const PolicyOptions options{.memory_limit = 4096, .cost_model = toy.prices()};
  EXPECT_THROW(decide(toy.classes(), *make_policy("anneal:iterations=5"), options), UserError);
}

}  // namespace
}  // namespace weft::policy
