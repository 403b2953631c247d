#include "runtime/policy/rewrite_to_fit.h"

#include <gtest/gtest.h>

#include "tests/runtime/policy/deep_step.h"

namespace weft::policy {
namespace {

constexpr int kFittedLayers = 6;
constexpr std::int64_t kInner = 1024, kWeight = 512;

class RewriteToFit : public ::testing::Test {
 protected:
  FittingRewrites find(std::int64_t limit, double gather, double inner) {
    const auto rewritten = [this](std::span<const plan::Rewrite> more) { return plan::rewrite(graph_, more); };
    return find_fitting_rewrites(
        rewritten, {.memory_limit = limit, .cost_model = testing::deep_costs(kFittedLayers, gather, inner)});
  }
  std::int64_t scratch(const std::string& rewrites) const { return testing::serial_scratch(graph_, rewrites); }
  static std::string text(const FittingRewrites& found) {
    return plan::to_string(std::span<const plan::Rewrite>(found.rewrites));
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
    ASSERT_NE(found.graph, nullptr);
    EXPECT_EQ(found.graph->fingerprint(), plan::rewrite(graph_, found.rewrites)->fingerprint());
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
  EXPECT_EQ(found.least_scratch, least);
}

TEST_F(RewriteToFit, NothingIsFoundBelowTheLeast) {
  const std::int64_t least = scratch("recompute;reshard");
  const FittingRewrites found = find(least - 1, 1, 1);
  EXPECT_TRUE(found.possible);
  EXPECT_TRUE(found.rewrites.empty());
  EXPECT_EQ(found.graph, nullptr);
  EXPECT_EQ(found.priced, 0U);
  EXPECT_EQ(found.least_scratch, least);
}

TEST_F(RewriteToFit, APlainGraphThatFitsIsThePlainestChoice) {
  const FittingRewrites found = find(2 * scratch(""), 10, 10);
  EXPECT_TRUE(found.rewrites.empty());
  EXPECT_EQ(found.graph, nullptr);
}

TEST_F(RewriteToFit, WhatIsDoneAlreadyIsLeft) {
  graph_ = plan::rewrite(graph_, plan::parse_rewrites("recompute=0,2"));
  const FittingRewrites found = find(scratch("recompute=0-3"), 1000, 1);
  EXPECT_EQ(text(found), "recompute=1,3");
  graph_ = plan::rewrite(graph_, plan::parse_rewrites("recompute;reshard"));
  EXPECT_FALSE(find(1, 1, 1).possible);
}

}  // namespace
}  // namespace weft::policy
