#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

TEST(Policies, AreMadeByTheirNames) {
  EXPECT_EQ(graph_policy_names(),
            (std::vector<std::string>{"serial", "program", "axonn", "ddp-bucket", "fsdp", "deepcompile", "inductor",
                                      "critical-path", "lhs", "random", "anneal", "portfolio", "exact"}));
  EXPECT_EQ(pipeline_policy_names(),
            (std::vector<std::string>{"serial", "program", "critical-path", "lhs", "random", "anneal", "portfolio",
                                      "exact", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v",
                                      "pipe-list", "pipe-search"}));
  for (const std::string& name : policy_names()) EXPECT_EQ(make_policy(name)->name(), name);
}

TEST(Policies, AMistypedNameIsAnsweredWithTheNearest) {
  EXPECT_EQ(testing::message_of<UserError>([] { make_policy("serail"); }),
            "unknown policy \"serail\"; expected one of serial, program, axonn, ddp-bucket, fsdp, deepcompile, "
            "inductor, critical-path, lhs, random, anneal, portfolio, exact, gpipe, 1f1b, interleaved, zb-h1, zb-v, "
            "dualpipe-v, pipe-list, pipe-search\n  fix: write \"serial\"");
  EXPECT_THROW(make_policy(""), UserError);
}

std::vector<std::string> quick_policies() {
  std::vector<std::string> names = testing::with_short_searches(policy_names());
  for (const char* variant :
       {"program:depth=1", "axonn:oar=off,ors=off,oag=off", "axonn:lookahead=3",
        "ddp-bucket:bucket-mb=0.001,first-mb=0", "fsdp:backward=post,max-gathered=1", "deepcompile:max-buffered=0",
        "inductor:passes=sink+raise", "inductor:passes=", "lhs:rules=less-memory+hide+near+release"}) {
    names.emplace_back(variant);
  }
  return names;
}

void expect_safe_and_repeatable(const std::string& name, const std::shared_ptr<const graph::Graph>& graph,
                                const PolicyOptions& options) {
  const plan::Order order = testing::order_of(*make_policy(name), *graph, options);
  if (options.memory_limit == 0) {
    EXPECT_EQ(order, testing::order_of(*make_policy(name), *graph, options)) << name;
  }
  for (const plan::Placement& placement : order.sequence) {
    ASSERT_LT(placement.reason, order.reasons.size()) << name;
    EXPECT_NE(order.reasons[placement.reason].table, nullptr) << name;
  }
  for (const plan::Violation& violation : plan::check_plan(plan::make_plan(graph, order, name))) {
    ADD_FAILURE() << name << ": " << violation.message;
  }
}

// Without a memory limit and under two: no policy can do with half of the program's memory, most can with all of it, at
// once or by waiting.
TEST(Policies, AllGiveSafePlansOfRandomGraphsAndTheSameOneTwice) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = seed % 4});
    const std::int64_t needed =
        plan::make_plan(graph, testing::order_of(*make_policy("serial"), *graph), "serial").scratch_bytes;
    for (const std::int64_t limit :
         {std::int64_t{0}, std::max<std::int64_t>(1, needed / 2), std::max<std::int64_t>(1, needed)}) {
      for (const std::string& name : quick_policies()) {
        expect_safe_and_repeatable(name, graph,
                                   {.compute_streams = static_cast<int>(1 + seed % 3), .memory_limit = limit});
      }
    }
  }
}

TEST(Policies, RefuseAnImpossibleNumberOfStreams) {
  const auto graph = testing::random_graph(1);
  for (const std::string& name : policy_names()) {
    EXPECT_THROW(testing::order_of(*make_policy(name), *graph, {0}), UserError) << name;
  }
}

}  // namespace
}  // namespace weft::policy
