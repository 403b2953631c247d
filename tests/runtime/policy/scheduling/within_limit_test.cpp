#include "runtime/policy/scheduling/within_limit.h"

#include <gtest/gtest.h>

#include "runtime/plan/plan.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

TEST(WithinLimit, TheShortestOrderThatFits) {
  const auto graph = testing::training_step(8, true, 4096);
  PolicyOptions options{.cost_model = testing::named_costs({})};
  const cost::TaskCosts costs = costs_of(*graph, options);
  const auto order_under = [&](const PolicyOptions& under) {
    ListScheduler scheduler(*graph, costs, under);
    scheduler.run(upward_rank(*graph, costs.ns));
    return scheduler.order({.kind = plan::ReasonKind::best_ready});
  };
  const std::int64_t most = plan::make_plan(graph, order_under(options), "list").scratch_bytes;
  for (const std::int64_t percent : {100, 90, 80, 70}) {
    SCOPED_TRACE(percent);
    options.memory_limit = most * percent / 100;
    const LimitedOrder plain = order_within_limit(*graph, options, order_under);
    const LimitedOrder found = shortest_within_limit(*graph, costs, options, order_under);
    EXPECT_EQ(found.makespan, timetable_of(*graph, found.order, costs, options).makespan);
    if (plain.scratch_bytes > options.memory_limit) continue;
    EXPECT_LE(found.scratch_bytes, options.memory_limit);
    EXPECT_LE(found.makespan, timetable_of(*graph, plain.order, costs, options).makespan);
    ListScheduler scheduler(*graph, costs, options);
    scheduler.run(upward_rank(*graph, costs.ns));
    const plan::Order order = scheduler.order({.kind = plan::ReasonKind::best_ready});
    EXPECT_EQ(fits_memory(*graph, options)(scheduler),
              plan::make_plan(graph, order, "list").scratch_bytes <= options.memory_limit);
  }
  options.memory_limit = 0;
  EXPECT_FALSE(fits_memory(*graph, options));
}

}  // namespace
}  // namespace weft::policy
