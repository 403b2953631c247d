#include "runtime/plan/plan_waits.h"

#include <gtest/gtest.h>

#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

TEST(HappensBefore, CountsWhatIsKnownToBeCompleteInTheSteadyState) {
  //  compute0: a, b      data: c      c reads a's result, b uses c's, next step's c follows b only through a
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter);
  toy.compute("a", {graph::write(x)});
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});
  toy.compute("b", {graph::read(x)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "a c b");
  const HappensBefore order(plan);
  const auto known = [&](const char* task) {
    const auto counts = order.known(graph->find_task(task));
    return std::vector<std::uint32_t>(counts.begin(), counts.end());
  };
  EXPECT_EQ(known("a"), (std::vector<std::uint32_t>{2, 1}));  // the whole step before
  EXPECT_EQ(known("c"), (std::vector<std::uint32_t>{3, 1}));
  EXPECT_EQ(known("b"), (std::vector<std::uint32_t>{3, 2}));
}

TEST(HappensBefore, KnowsNothingOfStreamsThatNothingTies) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter), y = toy.tensor("y", 8, graph::Role::parameter);
  toy.compute("a", {graph::read_write(x)});
  toy.collective("c", graph::Channel::data, {graph::read_write(y)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "a c");
  const HappensBefore order(plan);
  EXPECT_EQ(order.known(graph->find_task("a"))[1], 0U);
  EXPECT_EQ(order.known(graph->find_task("c"))[0], 0U);
  EXPECT_TRUE(order.waits(graph->find_task("c")).empty());
}

}  // namespace
}  // namespace weft::plan
