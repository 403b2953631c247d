#include "runtime/policy/scheduling/makespan.h"

#include <gtest/gtest.h>

#include "tests/runtime/toy_graph.h"

namespace weft::policy {
namespace {

TEST(Makespan, FollowsQueuesEdgesAndAddedEdges) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});                                // 2
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});  // 5
  toy.compute("b", {graph::write(y)});                                // 3
  toy.compute("d", {graph::read(y)});                                 // 1
  const auto graph = toy.build();
  const std::vector<double> cost = {2, 5, 3, 1};
  plan::Order order =
      testing::order_of(*graph, 1, {{"a", "compute0"}, {"c", "data"}, {"b", "compute0"}, {"d", "compute0"}});
  const Timetable table = timetable_of(*graph, order, cost);
  EXPECT_EQ(table.start, (std::vector<double>{0, 2, 2, 5}));
  EXPECT_EQ(table.finish, (std::vector<double>{2, 7, 5, 6}));
  EXPECT_EQ(table.makespan, 7);

  const auto edge = [&](graph::EdgeKind kind, std::uint8_t distance) {
    return graph::Edge{graph->find_task("c"), graph->find_task("d"), kind, graph::EdgeReason::policy, distance,
                       graph::TensorId()};
  };
  order.added_edges = {edge(graph::EdgeKind::completes_before, 0)};
  EXPECT_EQ(makespan_of(*graph, order, cost), 8);
  order.added_edges = {edge(graph::EdgeKind::issued_before, 0)};  // as plans have it between two streams
  EXPECT_EQ(makespan_of(*graph, order, cost), 8);
  order.added_edges = {edge(graph::EdgeKind::completes_before, 1)};
  EXPECT_EQ(makespan_of(*graph, order, cost), 7);
  // b in front of a in the queue.
  order = testing::order_of(*graph, 1, {{"b", "compute0"}, {"a", "compute0"}, {"c", "data"}, {"d", "compute0"}});
  EXPECT_EQ(makespan_of(*graph, order, cost), 10);
}

}  // namespace
}  // namespace weft::policy
