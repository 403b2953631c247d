#include "runtime/policy/builtin/portfolio.h"

#include <gtest/gtest.h>

#include "runtime/plan/plan.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

TEST(PortfolioPolicy, IsNeverLongerThanAnyOfItsMembers) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = 3});
    const PolicyOptions options{.compute_streams = static_cast<int>(1 + seed % 2), .seed = seed};
    const auto makespan = [&](const Policy& policy) {
      return testing::timetable_of(*graph, testing::order_of(policy, *graph, options), costs_of(*graph, options),
                                   options)
          .makespan;
    };
    const double best = makespan(*make_policy("portfolio:budget=20"));
    for (const PortfolioPolicy::Member& member : PortfolioPolicy::members()) {
      EXPECT_LE(best, makespan(*member.policy)) << member.name;
      EXPECT_EQ(make_policy(member.name)->name(), member.policy->name());
    }
  }
}

// Gathers hide under computations only where two weights fit.
TEST(PortfolioPolicy, KeepsTheMemoryLimitAndSaysWhatItTook) {
  const auto graph = testing::two_gathers(256);
  const auto costs = testing::named_costs({}, 4);
  const auto order_under = [&](std::int64_t limit) {
    return testing::order_of(*make_policy("portfolio:budget=10"), *graph, {.memory_limit = limit, .cost_model = costs});
  };
  const auto scratch = [&](const plan::Order& order) {
    return plan::make_plan(graph, order, "portfolio").scratch_bytes;
  };
  const auto makespan = [&](const plan::Order& order) {
    return testing::timetable_of(*graph, order, costs->costs(*graph), {}).makespan;
  };

  const plan::Order free = order_under(0), limited = order_under(2000), none = order_under(1000);
  EXPECT_EQ(makespan(free), 12);
  EXPECT_EQ(scratch(free), 2048);
  EXPECT_EQ(testing::reason_of(*graph, free, "g0"),
            (plan::Reason{.table = &ListScheduler::kReasons,
                          .code = ListScheduler::kLongestPath,
                          .selection = plan::Selection{.order = "critical-path", .orders = 15, .makespan_ns = 12}}));
  EXPECT_EQ(makespan(limited), 16);
  EXPECT_EQ(scratch(limited), 1024);
  EXPECT_EQ(scratch(none), 1024);
  EXPECT_EQ(
      testing::reason_of(*graph, none, "g0").selection,
      (plan::Selection{.order = "critical-path", .orders = 15, .memory_limit = 1000, .makespan_ns = makespan(none)}));
}

}  // namespace
}  // namespace weft::policy
