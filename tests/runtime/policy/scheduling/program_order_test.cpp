#include "runtime/policy/scheduling/program_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

TEST(Visits, AreRunsOfOneLayerInOnePass) {
  const auto graph = testing::training_step(2);
  std::vector<std::size_t> first;
  std::vector<std::int32_t> layers;
  for (const Visit& visit : visits_of(*graph)) {
    EXPECT_EQ(visit.first, first.empty() ? 0 : first.back());
    first.push_back(visit.end);
    layers.push_back(visit.layer);
  }
  EXPECT_EQ(first, (std::vector<std::size_t>{3, 6, 7, 12, 17, 19}));
  EXPECT_EQ(layers, (std::vector<std::int32_t>{0, 1, -1, 1, 0, -1}));
}

TEST(Visits, HaveTheTasksThatALayerPutOff) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::input);
  const std::vector<std::pair<std::int32_t, std::int32_t>> places = {{2, 0}, {1, 0},  {2, 0}, {1, 0}, {0, 0},
                                                                     {1, 0}, {-1, 0}, {0, 0}, {2, 1}};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string number = std::to_string(i);
    const graph::View y = toy.tensor("y" + number, 8);
    toy.add("t" + number, graph::GeluForward{8}, {graph::read(x), graph::write(y)}, places[i].first, places[i].second,
            graph::Phase::backward);
  }
  std::vector<std::pair<std::int32_t, std::size_t>> found;  // layer, end
  for (const Visit& visit : visits_of(*toy.build())) found.emplace_back(visit.layer, visit.end);
  EXPECT_EQ(found, (std::vector<std::pair<std::int32_t, std::size_t>>{{2, 1}, {1, 4}, {0, 6}, {-1, 8}, {2, 9}}));
}

TEST(ReorderedProgram, TakesAlongWhatNeedsAMovedTaskAndStopsAtWhatItNeeds) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::read_write(x)});
  toy.compute("c", {graph::write(y)});
  toy.compute("d", {graph::read(x)});
  const auto graph = toy.build();
  const auto names = [&](const ReorderedProgram& program) {
    std::string names;
    for (const graph::TaskId task : program.sequence()) names += graph->task(task).name;
    return names;
  };
  const auto id = [&](const char* name) { return graph->find_task(name); };
  ReorderedProgram none(*graph), late(*graph), early(*graph), far(*graph);
  EXPECT_EQ(names(none), "abcd");
  late.behind(id("a"), id("c"));
  EXPECT_EQ(names(late), "cabd");  // b reads what a writes
  early.before(id("d"), id("a"));
  EXPECT_EQ(names(early), "abdc");  // d reads what b writes
  far.before(id("c"), id("a"));
  EXPECT_EQ(names(far), "cabd");
}

TEST(EdgeAdder, LeavesOutEdgesAgainstTheSequenceAndWithinAQueue) {
  const auto graph = testing::training_step(1);
  const graph::Graph& g = *graph;
  ReorderedProgram program(g);
  plan::Order order = program_order(g, {}, program.sequence());
  EdgeAdder edges(order);
  EXPECT_TRUE(edges.add(g.find_task("f0"), g.find_task("loss")));
  EXPECT_FALSE(edges.add(g.find_task("i0"), g.find_task("r0")));
  EXPECT_TRUE(order.added_edges.empty());
  EXPECT_TRUE(edges.add(g.find_task("r0"), g.find_task("i0")));
  EXPECT_EQ(order.added_edges.size(), 1U);
}

}  // namespace
}  // namespace weft::policy
