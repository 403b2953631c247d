#include "runtime/plan/plan_memory.h"

#include <gtest/gtest.h>

#include "runtime/plan/checker.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

using testing::order_of;
using testing::ToyGraph;
using testing::waits_of;
using Strings = std::vector<std::string>;

std::int64_t offset_of(const Plan& plan, const char* tensor) {
  return plan.offset[plan.graph->find_tensor(tensor).index()];
}

TEST(PlanMemory, AChainNeedsTwoTensorsAtATime) {
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 64), y = toy.tensor("y", 64), z = toy.tensor("z", 64);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::read(x), graph::write(y)});
  toy.compute("c", {graph::read(y), graph::write(z)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "a b c");
  EXPECT_EQ(plan.sum_of_tensor_bytes, 3 * 256);
  EXPECT_EQ(plan.scratch_bytes, 2 * 256);
  EXPECT_EQ(offset_of(plan, "x"), offset_of(plan, "z"));
  EXPECT_NE(offset_of(plan, "x"), offset_of(plan, "y"));
  EXPECT_TRUE(plan.added_edges.empty());
}

TEST(PlanMemory, ConcurrentTensorsStayApart) {
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 64), y = toy.tensor("y", 64);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  const auto graph = toy.build();
  const Plan apart = testing::plan_in(graph, "a b@1");
  EXPECT_EQ(apart.scratch_bytes, 2 * 256);
  const Plan shared = make_plan(graph, order_of(*graph, 2, {{"a", "compute0"}, {"b", "compute0"}}), "mine");
  EXPECT_EQ(shared.scratch_bytes, 256);
}

TEST(PlanMemory, APolicysEdgeLetsTensorsShare) {
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 64), y = toy.tensor("y", 64);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  const auto graph = toy.build();
  Order order = testing::order_in(*graph, "a b@1");
  order.added_edges.push_back({graph->find_task("a"), graph->find_task("b"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  const Plan plan = make_plan(graph, order, "mine");
  EXPECT_EQ(plan.scratch_bytes, 256);
  // The next step's a writes where this step's b may still be writing.
  EXPECT_EQ(waits_of(plan, "a"), Strings{"compute1:b'"});
  ASSERT_EQ(plan.added_edges.size(), 2U);
  EXPECT_EQ(plan.added_edges[1].reason, graph::EdgeReason::memory);
  EXPECT_EQ(plan.added_edges[1].distance, 1);
  EXPECT_EQ(plan.added_edges[1].tensor, graph->find_tensor("x"));
}

TEST(PlanMemory, EveryOneOfSeveralFirstWritersWaits) {
  // Two streams write a half of x each: neither may start while the step before still reads x.
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 64);
  const graph::View left{x.tensor, 0, 1, 32, 32}, right{x.tensor, 32, 1, 32, 32};
  toy.compute("l", {graph::write(left)});
  toy.compute("r", {graph::write(right)});
  toy.collective("c", graph::Channel::data, {graph::read(x)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "l r@1 c");
  EXPECT_EQ(waits_of(plan, "l"), Strings{"data:c'"});
  EXPECT_EQ(waits_of(plan, "r"), Strings{"data:c'"});
  EXPECT_TRUE(check_plan(plan).empty());
}

TEST(PlanMemory, StateHasNoPlaceAndOffsetsAreAligned) {
  ToyGraph toy;
  const graph::View w = toy.tensor("w", 7, graph::Role::parameter), x = toy.tensor("x", 7), y = toy.tensor("y", 33);
  toy.tensor("unused", 1000);
  const graph::View empty = toy.tensor("empty", 0, graph::Role::workspace);
  toy.compute("a", {graph::read(w), graph::write(x), graph::write(y), graph::write(empty)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "a");
  EXPECT_EQ(offset_of(plan, "w"), kNoOffset);
  EXPECT_EQ(offset_of(plan, "empty"), 0);
  EXPECT_EQ(offset_of(plan, "x") % kTensorAlignment, 0);
  EXPECT_EQ(offset_of(plan, "y") % kTensorAlignment, 0);
  EXPECT_EQ(plan.scratch_bytes, 128 + 256);
  EXPECT_TRUE(check_plan(plan).empty());
}

TEST(PlanMemory, TheSmallestGapThatFitsIsTaken) {
  // While p and q are alive, `small` fits between or after them: it goes between them, where old was.
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 256), old = toy.tensor("old", 64), q = toy.tensor("q", 128);
  const graph::View small = toy.tensor("small", 32);
  toy.compute("a", {graph::write(p), graph::write(old), graph::write(q)});
  toy.compute("b", {graph::read(old)});
  toy.compute("c", {graph::write(small)});
  toy.compute("d", {graph::read(p), graph::read(q), graph::read(small)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "a b c d");
  EXPECT_EQ(plan.scratch_bytes, 4 * (256 + 64 + 128));
  EXPECT_EQ(offset_of(plan, "small"), offset_of(plan, "old"));
}

TEST(PlanMemory, OneStreamReachesTheLiveBytesOfAStack) {
  // Forward writes n activations, backward reads them in reverse, with a gradient of equal size passed along: n + 2.
  constexpr int kLayers = 12;
  ToyGraph toy;
  std::vector<graph::View> activation, gradient;
  std::string sequence;
  const auto task = [&](const std::string& name, std::vector<graph::Access> accesses) {
    toy.compute(name, std::move(accesses));
    sequence += name + " ";
  };
  for (int i = 0; i < kLayers; ++i) {
    activation.push_back(toy.tensor("a" + std::to_string(i), 64));
    std::vector<graph::Access> accesses = {graph::write(activation.back())};
    if (i > 0) accesses.push_back(graph::read(activation[static_cast<std::size_t>(i) - 1]));
    task("f" + std::to_string(i), std::move(accesses));
  }
  for (int i = kLayers; i-- > 0;) {
    gradient.push_back(toy.tensor("g" + std::to_string(i), 64));
    std::vector<graph::Access> accesses = {graph::read(activation[static_cast<std::size_t>(i)]),
                                           graph::write(gradient.back())};
    if (gradient.size() > 1) accesses.push_back(graph::read(gradient[gradient.size() - 2]));
    task("b" + std::to_string(i), std::move(accesses));
  }
  const auto graph = toy.build();
  EXPECT_EQ(testing::plan_in(graph, sequence).scratch_bytes, (kLayers + 1) * 256);
}

}  // namespace
}  // namespace weft::plan
