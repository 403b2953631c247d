#include "runtime/plan/checker_replay.h"

#include <gtest/gtest.h>

#include "runtime/plan/plan_waits.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

TEST(Replay, AgreesWithThePlannersClocks) {
  // Two pieces of code that share nothing: edges in issue order there, waits in order of readiness here.
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = 3});
    const Plan plan = make_plan(graph, testing::RandomPolicy(seed, 4).order(*graph, {2}), "random");
    const HappensBefore order(plan);
    const Replay replay(plan, Replay::Issue::by_stream);
    ASSERT_TRUE(replay.complete());
    EXPECT_TRUE(Replay(plan, Replay::Issue::in_collective_order).complete());
    for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
      for (std::size_t s = 0; s < plan.streams.size(); ++s) {
        EXPECT_EQ(replay.clock(graph::TaskId(i), s), order.known(graph::TaskId(i))[s])
            << seed << ": k" << i << ", stream " << s;
      }
    }
  }
}

TEST(Replay, TellsWhoWaitsForWhom) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter);
  toy.compute("a", {graph::read_write(x)});
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});
  const auto graph = toy.build();
  Plan plan = make_plan(graph, testing::order_of(*graph, 1, {{"a", "compute0"}, {"c", "data"}}), "mine");
  EXPECT_EQ(Replay(plan, Replay::Issue::by_stream).deadlock(), "");
  plan.streams[0].entries[0].waits = {{StreamId(std::size_t{1}), 0, 0}};
  const Replay replay(plan, Replay::Issue::by_stream);
  EXPECT_EQ(replay.stuck().size(), 2U);
  EXPECT_EQ(replay.deadlock(),
            "compute0 is stuck at a, which waits for c on data; data is stuck at c, which waits for a on compute0");
}

}  // namespace
}  // namespace weft::plan
