#include "runtime/policy/builtin/fsdp.h"

#include <gtest/gtest.h>

#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

std::string first_wait(const plan::Plan& plan, const std::string& task) {
  const Strings waits = testing::waits_of(plan, task);
  return waits.empty() ? "" : waits.front();
}

class Fsdp : public ::testing::Test {
 protected:
  std::string sequence(const std::string& policy) {
    order_ = testing::order_of(*make_policy(policy), *graph_);
    plan_ = plan::make_plan(graph_, order_, "fsdp");
    EXPECT_TRUE(plan::check_plan(plan_).empty());
    return testing::sequence_of(*graph_, order_);
  }
  std::shared_ptr<const graph::Graph> graph_ = testing::training_step(3, true);
  plan::Order order_;
  plan::Plan plan_;
};

TEST_F(Fsdp, GathersOneLayerAheadInBothPasses) {
  EXPECT_EQ(sequence("fsdp"),
            "g0 g1 f0 g2 r0 f1 r1 f2 h2 r2 loss h1 di2 i2 dw2 h0 s2 d2 di1 i1 dw1 s1 d1 di0 i0 dw0 s0 d0 u0 u1 u2");
  EXPECT_EQ(first_wait(plan_, "g2"), "compute0:f0");
  EXPECT_EQ(first_wait(plan_, "h2"), "compute0:f2");
  EXPECT_EQ(first_wait(plan_, "h1"), "compute0:loss");
  EXPECT_EQ(first_wait(plan_, "h0"), "compute0:dw2");
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g2"),
            (plan::Reason{.table = &FsdpPolicy::kReasons, .code = FsdpPolicy::kGatheredAhead, .numbers = {1, 1}}));
  EXPECT_EQ(testing::reason_of(*graph_, order_, "s1"),
            (plan::Reason{.table = &FsdpPolicy::kReasons, .code = FsdpPolicy::kReducedAfter}));
}

TEST_F(Fsdp, PostGathersBehindTheGradientsOfTheLayerBefore) {
  EXPECT_EQ(sequence("fsdp:backward=post"),
            "g0 g1 f0 g2 r0 f1 r1 f2 r2 loss h2 di2 i2 dw2 h1 s2 d2 di1 i1 dw1 h0 s1 d1 di0 i0 dw0 s0 d0 u0 u1 u2");
  EXPECT_EQ(first_wait(plan_, "h1"), "compute0:dw2");
  EXPECT_EQ(testing::reason_of(*graph_, order_, "h1"),
            (plan::Reason{.table = &FsdpPolicy::kReasons, .code = FsdpPolicy::kGatheredAfter, .numbers = {1}}));
}

TEST_F(Fsdp, TheLimiterHoldsBackWhatDepthWouldGather) {
  EXPECT_TRUE(sequence("fsdp:forward-depth=3,max-gathered=1").starts_with("g0 f0 g1 r0 f1 g2 r1 f2 r2 loss h2 di2"));
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g1"),
            (plan::Reason{.table = &FsdpPolicy::kReasons, .code = FsdpPolicy::kLimiter, .numbers = {1}}));
  EXPECT_TRUE(sequence("fsdp:forward-depth=3,max-gathered=9").starts_with("g0 g1 g2 f0 r0 f1 r1 f2 h2 r2 loss h1"));
  // Depths that differ between the passes don't change the order of gathers.
  EXPECT_TRUE(
      sequence("fsdp:forward-depth=0,backward-depth=3,max-gathered=9").starts_with("g0 f0 g1 r0 f1 g2 h2 h1 r1"))
      << sequence("fsdp:forward-depth=0,backward-depth=3,max-gathered=9");
}

TEST_F(Fsdp, AsksToReshardWeightsThatTheForwardPassKeeps) {
  const std::vector<plan::Rewrite> reshard = {plan::ReshardAfterForward{}};
  EXPECT_EQ(make_policy("fsdp")->rewrites(*testing::training_step(2), {}), reshard);
  EXPECT_TRUE(make_policy("fsdp:reshard=false")->rewrites(*testing::training_step(2), {}).empty());
  EXPECT_TRUE(make_policy("fsdp")->rewrites(*graph_, {}).empty());
}

}  // namespace
}  // namespace weft::policy
