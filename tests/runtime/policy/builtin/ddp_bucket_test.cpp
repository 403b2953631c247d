#include "runtime/policy/builtin/ddp_bucket.h"

#include <gtest/gtest.h>

#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

// Shards of 256 KiB: the first bucket takes one shard, the other buckets two.
constexpr const char* kPolicy = "ddp-bucket:bucket-mb=0.5,first-mb=0.25";

TEST(DdpBucketPolicy, IssuesABucketWhenItsLastGradientIsReady) {
  const auto graph = testing::training_step(3, false, 65536);
  const plan::Order order = testing::order_of(*make_policy(kPolicy), *graph);
  EXPECT_EQ(testing::sequence_of(*graph, order),
            "g0 f0 r0 g1 f1 r1 g2 f2 r2 loss di2 i2 dw2 s2 d2 di1 i1 dw1 s1 di0 i0 dw0 s0 d1 d0 u0 u1 u2");
  EXPECT_EQ(testing::reason_of(*graph, order, "d2"),
            (plan::Reason{.table = &DdpBucketPolicy::kReasons, .numbers = {1, 2, 1, 1 << 18}}));
  EXPECT_EQ(testing::reason_of(*graph, order, "d1"),
            (plan::Reason{.table = &DdpBucketPolicy::kReasons, .numbers = {2, 2, 2, 1 << 19}}));
  const plan::Plan plan = plan::make_plan(graph, order, "ddp-bucket");
  EXPECT_EQ(testing::waits_of(plan, "d2"), Strings{"z_scatter:s2"});
  EXPECT_EQ(testing::waits_of(plan, "d1"), Strings{"z_scatter:s0"});
  EXPECT_EQ(testing::waits_of(plan, "d0"), Strings{});
  EXPECT_EQ(testing::waits_of(plan, "u0"), Strings{"data:d0"});
  EXPECT_TRUE(plan::check_plan(plan).empty());
}

TEST(DdpBucketPolicy, TheUpdateWaitsForAllBuckets) {
  testing::ToyGraph toy;
  const graph::View a = toy.tensor("a", 8, graph::Role::gradient), b = toy.tensor("b", 8, graph::Role::gradient);
  const graph::View w = toy.tensor("w", 8, graph::Role::parameter);
  toy.add({"dw", graph::Add{8}, {graph::write(a), graph::write(b)}, 0, 0, graph::Phase::backward});
  toy.add({"da", graph::AllReduce{graph::Channel::data, 2, 8}, {graph::read_write(a)}, 0, 0, graph::Phase::backward});
  toy.add({"db", graph::AllReduce{graph::Channel::data, 2, 8}, {graph::read_write(b)}, 0, 0, graph::Phase::backward});
  toy.add(
      {"ua", graph::Add{8}, {graph::read(a), graph::read_write(w)}, 0, 0, graph::Phase::update});  // reads nothing of b
  const auto graph = toy.build();
  const plan::Plan plan = plan::make_plan(graph, testing::order_of(*make_policy("ddp-bucket"), *graph), "ddp-bucket");
  EXPECT_EQ(testing::waits_of(plan, "ua"), Strings{"data:db"});
}

TEST(DdpBucketPolicy, AsksForBucketsWhereThereIsSomethingToJoin) {
  const PolicyOptions options;
  const auto rewrites = [&](const char* policy, const graph::Graph& graph) {
    return make_policy(policy)->rewrites(graph, options);
  };
  EXPECT_EQ(rewrites(kPolicy, *testing::training_step(2)),
            (std::vector<plan::Rewrite>{plan::BucketAllReduces{512 << 10}}));
  EXPECT_EQ(rewrites("ddp-bucket", *testing::training_step(2)),
            (std::vector<plan::Rewrite>{plan::BucketAllReduces{25 << 20}}));
  EXPECT_TRUE(rewrites("ddp-bucket", *testing::training_step(1)).empty());
  EXPECT_TRUE(rewrites("ddp-bucket:bucket-mb=0", *testing::training_step(2)).empty());
}

}  // namespace
}  // namespace weft::policy
