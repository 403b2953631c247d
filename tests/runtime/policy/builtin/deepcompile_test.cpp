#include "runtime/policy/builtin/deepcompile.h"

#include <gtest/gtest.h>

#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

// A gathered weight has 2·2^20 elements of four bytes: 8 MiB; an activation half of that.
constexpr std::int64_t kElements = std::int64_t{1} << 20, kGathered = 8 * kElements;

class DeepCompile : public ::testing::Test {
 protected:
  std::string sequence(const std::string& policy, std::int64_t memory_limit = 0) {
    order_ = testing::order_of(*make_policy(policy), *graph_, {.memory_limit = memory_limit});
    EXPECT_TRUE(plan::check_plan(plan::make_plan(graph_, order_, "deepcompile")).empty());
    return testing::sequence_of(*graph_, order_);
  }
  std::shared_ptr<const graph::Graph> graph_ = testing::training_step(3, true, kElements);
  plan::Order order_;
};

TEST_F(DeepCompile, WithMemoryWeightsAreGatheredAtTheBegin) {
  EXPECT_TRUE(sequence("deepcompile").starts_with("g0 g1 g2 h2 h1 h0 f0 r0")) << sequence("deepcompile");
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g0").table, &DeepCompilePolicy::kReasons);
}

TEST_F(DeepCompile, WithoutABufferTheyAreGatheredInPlace) {
  EXPECT_TRUE(sequence("deepcompile:max-buffered=0").starts_with("g0 f0 r0 g1 f1 r1 g2 f2 r2 loss h2 di2"));
}

TEST_F(DeepCompile, TheBufferHoldsSoManyWeights) {
  // In GB: room for two gathered weights. Carried past a task are at most two.
  const std::string order = sequence("deepcompile:max-buffered=0.016");
  EXPECT_TRUE(order.starts_with("g0 g1 g2 f0 r0 h2 f1 r1 h1 f2 r2 loss h0 di2")) << order;
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g2").numbers[0], static_cast<std::uint64_t>(3 * kGathered));
}

TEST_F(DeepCompile, PredictedMemoryHoldsThemBack) {
  const std::int64_t much = 100 * kGathered;
  EXPECT_EQ(sequence("deepcompile", much), sequence("deepcompile"));
  EXPECT_TRUE(sequence("deepcompile:margin=1", much).starts_with("g0 f0 r0 g1 f1 r1")) << "the margin is all";
  EXPECT_NE(sequence("deepcompile:margin=0", 6 * kGathered), sequence("deepcompile"));
}

}  // namespace
}  // namespace weft::policy
