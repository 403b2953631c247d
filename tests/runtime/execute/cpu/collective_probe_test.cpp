// Probes: factors from times made by hand, and the results of the computation beside the collectives.
#include "runtime/execute/cpu/collective_probe.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

using testing::ToyGraph;

TEST(SlowdownFactor, IsWhatTheTransportsCoresDontExplain) {
  const CollectiveTimes product{.alone = 90, .beside = 100, .slows_by = 20};  // products go on at a rate of 0.8
  EXPECT_DOUBLE_EQ(slowdown_factor(product, {80, 100, 60}), 2);
  EXPECT_DOUBLE_EQ(slowdown_factor(product, {80, 200, 72}), 1.25);
  EXPECT_EQ(slowdown_factor(product, product), 1);
}

TEST(SlowdownFactor, IsOneWithinTheNoiseAndWhereAComputationIsSlowedLess) {
  const CollectiveTimes product{.alone = 90, .beside = 100, .slows_by = 20};
  EXPECT_EQ(slowdown_factor(product, {80, 100, 27}), 1);  // 0.80 / 0.73
  EXPECT_GT(slowdown_factor(product, {80, 100, 28}), 1);
  EXPECT_EQ(slowdown_factor(product, {80, 100, 0}), 1);
}

TEST(SlowdownFactor, StaysFiniteWhereNothingElseGetsACore) {
  const CollectiveTimes all{.alone = 90, .beside = 100, .slows_by = 100},
      more{.alone = 90, .beside = 100, .slows_by = 900};
  EXPECT_EQ(slowdown_factor(all, more), 1);
  EXPECT_DOUBLE_EQ(slowdown_factor({90, 100, 0}, all), 10);
  EXPECT_EQ(slowdown_factor({}, {}), 1);
}

/// All-reduces of 1000 numbers on two in-process ranks beside the computation that `make` makes; by rank.
template <class Make>
std::vector<CollectiveTimes> probed(const Make& make) {
  std::mutex mutex;
  std::vector<CollectiveTimes> all;
  testing::on_ranks(2, [&](comm::World& world) {
    ProbeComputation computation = make();
    const auto group = world.split(0);
    constexpr std::int64_t kCount = 1000;
    const Buffer data(kCount * 4), workspace(kCount * 4);
    const comm::CollectiveCall call{
        comm::CollectiveKind::all_reduce, DType::f32, kCount, 0, nullptr, data.data(), workspace.data()};
    const CollectiveTimes times = probe_collective(world, group.get(), call, computation, 2);
    const std::lock_guard lock(mutex);
    all.push_back(times);
  });
  return all;
}

void expect_alike(const std::vector<CollectiveTimes>& ranks) {
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_GT(ranks[0].alone, 0);
  EXPECT_GT(ranks[0].beside, 0);
  EXPECT_GE(ranks[0].slows_by, 0);
  EXPECT_EQ(ranks[0].alone, ranks[1].alone);
  EXPECT_EQ(ranks[0].beside, ranks[1].beside);
  EXPECT_EQ(ranks[0].slows_by, ranks[1].slows_by);
}

TEST(ProbeCollective, EveryRankHasTheSlowestOnesTimes) {
  expect_alike(probed([] { return ProbeComputation::product(1); }));
}

TEST(ProbeCollective, RunsBesideTasksOfGraphs) {
  ToyGraph toy;
  const graph::View a = toy.tensor("a", 1 << 16, graph::Role::parameter), b = toy.tensor("b", 1 << 16);
  toy.add({"gelu", graph::GeluForward{1 << 16}, {graph::read(a), graph::write(b)}});
  const auto graph = toy.build();
  expect_alike(probed([&] { return ProbeComputation(*graph, graph->task(graph->find_task("gelu")), 1); }));
}

TEST(ProbeComputation, LetsATransportGoOnBetweenItsChunks) {
  ProbeComputation product = ProbeComputation::product(1);
  int calls = 0;
  product.set_progress_hook([&] { ++calls; });
  product.run();
  EXPECT_GT(calls, 2);
}

}  // namespace
}  // namespace weft::execute
