#include "runtime/policy/scheduling/timetable.h"

#include <gtest/gtest.h>

#include "tests/runtime/order_of.h"
#include "tests/runtime/toy_graph.h"

namespace weft::policy {
namespace {

TEST(Timetable, FollowsQueuesEdgesAndAddedEdges) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});                                // 2
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});  // 5
  toy.compute("b", {graph::write(y)});                                // 3
  toy.compute("d", {graph::read(y)});                                 // 1
  const auto graph = toy.build();
  const cost::TaskCosts costs{.ns = {2, 5, 3, 1}, .cpu_ns = {0, 0, 0, 0}};
  const auto table_of = [&](const plan::Order& order) { return testing::timetable_of(*graph, order, costs, {}); };
  plan::Order order =
      testing::order_of(*graph, 1, {{"a", "compute0"}, {"c", "data"}, {"b", "compute0"}, {"d", "compute0"}});
  const Timetable table = table_of(order);
  EXPECT_EQ(table.start, (std::vector<double>{0, 2, 2, 5}));
  EXPECT_EQ(table.finish, (std::vector<double>{2, 7, 5, 6}));
  EXPECT_EQ(table.makespan, 7);

  const auto edge = [&](graph::EdgeKind kind, std::uint8_t distance) {
    return graph::Edge{graph->find_task("c"), graph->find_task("d"), kind, graph::EdgeReason::policy, distance,
                       graph::TensorId()};
  };
  order.added_edges = {edge(graph::EdgeKind::completes_before, 0)};
  EXPECT_EQ(table_of(order).makespan, 8);
  order.added_edges = {edge(graph::EdgeKind::issued_before, 0)};  // as plans have it between two streams
  EXPECT_EQ(table_of(order).makespan, 8);
  order.added_edges = {edge(graph::EdgeKind::completes_before, 1)};
  EXPECT_EQ(table_of(order).makespan, 7);
  // b in front of a in the queue.
  order = testing::order_of(*graph, 1, {{"b", "compute0"}, {"a", "compute0"}, {"c", "data"}, {"d", "compute0"}});
  EXPECT_EQ(table_of(order).makespan, 10);
}

}  // namespace
}  // namespace weft::policy
