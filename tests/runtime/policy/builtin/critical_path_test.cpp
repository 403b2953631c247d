#include "runtime/policy/builtin/critical_path.h"

#include <gtest/gtest.h>

#include "runtime/plan/checker.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

TEST(CriticalPathPolicy, StartsWhatTheLongestPathLeadsThrough) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8), z = toy.tensor("z", 8);
  toy.compute("b", {graph::write(y)});                                // 5
  toy.compute("a", {graph::write(x)});                                // 1, then c and d: 12
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});  // 10
  toy.compute("d", {graph::read(x), graph::write(z)});                // 1
  const auto graph = toy.build();
  const PolicyOptions options{.cost_model = testing::named_costs({{"b", 5}, {"a", 1}, {"c", 10}, {"d", 1}})};
  const plan::Order order = testing::order_of(CriticalPathPolicy(), *graph, options);
  EXPECT_EQ(testing::sequence_of(*graph, order), "a c b d");
  EXPECT_EQ(testing::timetable_of(*graph, order, costs_of(*graph, options), options).makespan, 12);
  EXPECT_EQ(testing::reason_of(*graph, order, "a"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kLongestPath}));
  EXPECT_EQ(testing::reason_of(*graph, order, "b"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kOnlyReady}));
}

TEST(CriticalPathPolicy, TiesEndInProgramOrder) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  const auto graph = toy.build();
  const plan::Order order = testing::order_of(CriticalPathPolicy(), *graph, {.cost_model = testing::named_costs({})});
  EXPECT_EQ(testing::sequence_of(*graph, order), "a b");
  EXPECT_EQ(testing::reason_of(*graph, order, "a"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kTiesOnLongestPath}));
}

// Two weights of 1 KiB, each gathered and used; the second is gathered while the first is used, if memory allows.
class TwoGathers : public ::testing::Test {
 protected:
  TwoGathers() {
    const graph::View out = toy_.tensor("out", 8, graph::Role::parameter);
    const graph::View w0 = toy_.tensor("w0", 256), w1 = toy_.tensor("w1", 256);
    toy_.collective("g0", graph::Channel::z_gather, {graph::write(w0)});
    toy_.compute("c0", {graph::read(w0), graph::read_write(out)});
    toy_.collective("g1", graph::Channel::z_gather, {graph::write(w1)});
    toy_.compute("c1", {graph::read(w1), graph::read_write(out)});
    graph_ = toy_.build();
  }
  plan::Plan plan(std::int64_t limit) {
    const auto costs = testing::named_costs({{"g0", 4}, {"c0", 4}, {"g1", 4}, {"c1", 4}});
    order_ = testing::order_of(CriticalPathPolicy(), *graph_, {.memory_limit = limit, .cost_model = costs});
    plan::Plan plan = plan::make_plan(graph_, order_, "critical-path");
    EXPECT_TRUE(plan::check_plan(plan).empty());
    return plan;
  }
  testing::ToyGraph toy_;
  std::shared_ptr<const graph::Graph> graph_;
  plan::Order order_;
};

TEST_F(TwoGathers, RunAheadWithoutALimit) {
  EXPECT_EQ(plan(0).scratch_bytes, 2048);
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 g1 c0 c1");
  EXPECT_EQ(plan(2048).scratch_bytes, 2048);
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 g1 c0 c1");
}

TEST_F(TwoGathers, WaitForMemoryUnderALimit) {
  const plan::Plan limited = plan(2047);
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 c0 g1 c1");
  EXPECT_EQ(limited.scratch_bytes, 1024);
  EXPECT_EQ(testing::waits_of(limited, "g1"), std::vector<std::string>{"compute0:c0"});
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g1"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kHeld}));
}

TEST_F(TwoGathers, FollowTheProgramWhereNothingFits) {
  EXPECT_EQ(plan(512).scratch_bytes, 1024);
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 c0 g1 c1");
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g0"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kOverLimit}));
}

}  // namespace
}  // namespace weft::policy
