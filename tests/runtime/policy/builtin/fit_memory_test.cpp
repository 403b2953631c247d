#include "runtime/policy/builtin/fit_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/builtin/program.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/runtime/all_orders.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

using Graph = std::shared_ptr<const graph::Graph>;

/// The least scratch memory of all serial orders, by trying each.
std::int64_t least_scratch(const Graph& graph) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  testing::for_each_sequence(*graph, [&](std::span<const graph::TaskId> sequence) {
    least = std::min(least, plan::make_plan(graph, serial_order(*graph, sequence), "tried").scratch_bytes);
  });
  return least;
}

const std::vector<std::string> kPolicies = {"program", "serial", "axonn",           "critical-path",
                                            "lhs",     "fsdp",   "program:depth=1", "random"};

TEST(FitMemory, NoPlanIsAboveItsLimitAndNoneIsRefusedThatAnyOrderFits) {
  int kept = 0, changed = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
    testing::Draws draws(seed);
    testing::RandomGraphOptions size;
    size.tasks = static_cast<std::size_t>(draws.between(2, 6));
    size.tensors = static_cast<std::size_t>(draws.between(3, 8));
    size.channels = draws.below(3);
    const Graph graph = testing::random_graph(seed, size);
    const auto policy = make_policy(kPolicies[draws.below(kPolicies.size())]);
    PolicyOptions options{.compute_streams = static_cast<int>(draws.between(1, 2))};
    const plan::Plan unlimited = compile_plan(graph, *policy, options);
    const std::int64_t limit = std::max<std::int64_t>(1, unlimited.scratch_bytes * draws.between(2, 11) / 10);
    options.memory = state_bytes(*graph) + limit;
    try {
      const plan::Plan plan = compile_plan(graph, *policy, options);
      EXPECT_LE(plan.scratch_bytes, limit) << seed;
      EXPECT_TRUE(plan::check_plan(plan).empty()) << seed;
      (unlimited.scratch_bytes <= limit ? kept : changed) += 1;
    } catch (const UserError&) {
      EXPECT_GT(least_scratch(graph), limit) << seed << " " << policy->name();
      ++refused;
    }
  }
  EXPECT_GT(kept, 500);
  EXPECT_GT(changed, 100);
  EXPECT_GT(refused, 1000);
}

TEST(FitMemory, LargerGraphsKeepTheirLimits) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = testing::random_graph(seed, {.tasks = 60, .tensors = 40});
    for (const std::string& name : kPolicies) {
      const auto policy = make_policy(name);
      const plan::Plan unlimited = compile_plan(graph, *policy);
      const plan::Plan serial = compile_plan(graph, SerialPolicy());
      const std::int64_t limit = (unlimited.scratch_bytes + serial.scratch_bytes) / 2;
      const plan::Plan plan = compile_plan(graph, *policy, {.memory_limit = limit});
      EXPECT_LE(plan.scratch_bytes, limit) << seed << " " << name;
      changed += unlimited.scratch_bytes > limit ? 1 : 0;
    }
  }
  EXPECT_GT(changed, 50);
}

constexpr std::int64_t kWeightBytes = 4096;  // of two_gathers(), each of two weights and the state

TEST(FitMemory, AChangedOrderSaysSo) {
  const Graph prefetch = testing::two_gathers(kWeightBytes / 4);
  const auto policy = make_policy("program");
  const std::int64_t needed = compile_plan(prefetch, *policy).scratch_bytes;
  ASSERT_EQ(needed, 2 * kWeightBytes);
  const plan::Plan plan = compile_plan(prefetch, *policy, {.memory_limit = needed - 1});
  EXPECT_EQ(plan.scratch_bytes, needed / 2);
  const plan::Order order = testing::order_within_memory(*policy, *prefetch, {.memory_limit = needed - 1});
  for (const plan::Reason& reason : order.reasons) {
    ASSERT_TRUE(reason.selection);
    EXPECT_TRUE(reason.selection->keeps_limit);
    EXPECT_EQ(reason.selection->memory_limit, static_cast<std::uint64_t>(needed - 1));
  }
}

TEST(FitMemory, CountsTheStateOfTheStep) {
  const Graph prefetch = testing::two_gathers(kWeightBytes / 4);
  EXPECT_EQ(state_bytes(*prefetch), kWeightBytes);
  const auto policy = make_policy("serial");
  EXPECT_NO_THROW(compile_plan(prefetch, *policy, {.memory = 2 * kWeightBytes}));
  EXPECT_THROW(compile_plan(prefetch, *policy, {.memory = 2 * kWeightBytes - 1}), UserError);
  EXPECT_THROW(compile_plan(prefetch, *policy, {.memory = 1}), UserError);
}

}  // namespace
}  // namespace weft::policy
