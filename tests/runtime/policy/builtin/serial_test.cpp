#include "runtime/policy/builtin/serial.h"

#include <gtest/gtest.h>

#include "runtime/plan/checker_replay.h"
#include "runtime/policy/scheduling/program_order.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::policy {
namespace {

TEST(SerialPolicy, BlocksOnEveryCollective) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});
  toy.compute("d", {graph::read(y)});  // needs nothing of c
  const auto graph = toy.build();
  const plan::Plan plan = plan::make_plan(graph, testing::order_of(SerialPolicy(), *graph), "serial");
  EXPECT_EQ(testing::waits_of(plan, "c"), std::vector<std::string>{"compute0:b"});
  EXPECT_EQ(testing::waits_of(plan, "d"), std::vector<std::string>{"data:c"});
  EXPECT_EQ(plan.reasons[testing::entry_of(plan, "c").reason], plan::Reason{.table = &SerialPolicy::kReasons});
  EXPECT_EQ(plan.reasons[testing::entry_of(plan, "d").reason],
            (plan::Reason{.table = &kProgramReasons, .code = kProgramOrder}));
}

TEST(SerialPolicy, RunsOneTaskAtATimeAlsoAcrossSteps) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = 3});
    const plan::Plan plan =
        plan::make_plan(graph, testing::order_of(SerialPolicy(), *graph, {.compute_streams = 3}), "serial");
    EXPECT_EQ(std::ranges::count_if(plan.streams, [](const plan::StreamPlan& s) { return s.stream.compute; }), 1);
    const plan::Plan* const one = &plan;
    const plan::Replay replay({&one, 1});
    const plan::Clocks& clocks = replay.clocks(0);
    for (std::size_t i = 1; i < graph->tasks().size(); ++i)
      EXPECT_TRUE(clocks.before(graph::TaskId(i - 1), graph::TaskId(i), 0));
    EXPECT_TRUE(clocks.before(graph::TaskId(graph->tasks().size() - 1), graph::TaskId(std::size_t{0}), 1));
  }
}

}  // namespace
}  // namespace weft::policy
