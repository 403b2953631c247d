#include "runtime/cost/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/runtime/toy_graph.h"

namespace weft::cost {
namespace {

Machine load(const std::string& name) {
  return load_machine(WEFT_SOURCE_DIR "/machines/" + name + ".toml");
}

TEST(GroupSpan, SaysHowGroupsLieOnNodes) {
  Machine machine;
  machine.devices_per_node = 4;
  const graph::Grid grid{2, 2, 4, 2};
  //                                                    ranks nodes per node sharing stride
  EXPECT_EQ(group_span(machine, grid, graph::Channel::x), (GroupSpan{2, 1, 2, 2, 1, 8}));
  EXPECT_EQ(group_span(machine, grid, graph::Channel::data), (GroupSpan{2, 2, 1, 4, 16, 8}));
  graph::Grid turned{2, 1, 1, 4};
  turned.order = {graph::Axis::data, graph::Axis::x, graph::Axis::y, graph::Axis::z};
  EXPECT_TRUE(group_span(machine, turned, graph::Channel::data).within_node());
  EXPECT_EQ(group_span(machine, turned, graph::Channel::x), (GroupSpan{2, 2, 1, 4, 4, 2}));
}

/// group_span() by counting: every rank's group and node.
GroupSpan counted_span(const Machine& machine, const graph::Grid& grid, graph::Channel channel, std::int64_t stride) {
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> members;  // by group, by node
  std::map<std::int64_t, std::set<std::int64_t>> groups;                 // by node
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    const std::int64_t group = graph::group_color(grid, channel, rank), node = rank / machine.devices_per_node;
    ++members[group][node];
    groups[node].insert(group);
  }
  GroupSpan span{.ranks = graph::group_size(grid, channel), .stride = stride};
  span.job_nodes = static_cast<std::int64_t>(groups.size());
  if (span.ranks == 1) return span;
  for (const auto& [group, nodes] : members) {
    span.nodes = std::max(span.nodes, static_cast<std::int64_t>(nodes.size()));
    for (const auto& [node, count] : nodes) span.per_node = std::max(span.per_node, count);
  }
  for (const auto& [node, inside] : groups) {
    span.sharing = std::max(span.sharing, static_cast<std::int64_t>(inside.size()));
  }
  return span;
}

TEST(GroupSpan, IsThatOfACountOverAllRanks) {
  Machine machine;
  int grids = 0;
  for (const std::int64_t a_node : {1, 2, 3, 4, 6, 8, 64}) {
    machine.devices_per_node = a_node;
    for (const graph::Grid& sizes : {graph::Grid{2, 2, 2, 2}, graph::Grid{3, 1, 5, 2}, graph::Grid{1, 4, 3, 2},
                                     graph::Grid{6, 2, 1, 3}, graph::Grid{1, 1, 7, 4}, graph::Grid{5, 3, 2, 1}}) {
      graph::Grid grid = sizes;
      std::ranges::sort(grid.order);
      do {
        for (const graph::Channel channel : {graph::Channel::x, graph::Channel::y, graph::Channel::z_gather,
                                             graph::Channel::data, graph::Channel::world}) {
          const GroupSpan span = group_span(machine, grid, channel);
          EXPECT_EQ(span, counted_span(machine, grid, channel, span.stride))
              << graph::to_string(grid) << " " << graph::to_string(channel) << " on nodes of " << a_node;
          ++grids;
        }
      } while (std::ranges::next_permutation(grid.order).found);
    }
  }
  EXPECT_EQ(grids, 7 * 6 * 24 * 5);
}

TEST(GroupBandwidth, IsThatOfTheNodeOrAShareOfItsPorts) {
  Machine machine;
  machine.devices_per_node = 4;
  machine.node.bandwidth = 300;
  machine.pair_bandwidth = 100;
  machine.network.bandwidth = 20;
  machine.network_ports = 4;
  EXPECT_EQ(group_bandwidth(machine, {2, 1, 2, 2, 1}), 100);
  EXPECT_EQ(group_bandwidth(machine, {4, 1, 4, 1, 1}), 300);
  EXPECT_EQ(group_bandwidth(machine, {8, 2, 4, 1, 1}), 80);
  EXPECT_EQ(group_bandwidth(machine, {8, 4, 2, 2, 2}), 40);
  EXPECT_EQ(group_bandwidth(machine, {8, 8, 1, 4, 4}), 20);
  machine.pair_bandwidth = 0;
  EXPECT_EQ(group_bandwidth(machine, {2, 1, 2, 2, 1}), 300);
  machine.node_groups = {{2, 1, 55}};
  EXPECT_EQ(group_bandwidth(machine, {2, 1, 2, 2, 1}), 55);
  EXPECT_EQ(group_bandwidth(machine, {2, 1, 2, 2, 2}), 300);
}

/// Seconds that AxoNN's model gives a step (S = 2048, recompute, no overlap, communication alone):
/// examples/comm_model.py with the sizes of the second matrix of the MLP put right.
double axonn_seconds(const Machine& machine, const graph::Grid& grid, double layers, double hidden, double batch) {
  const auto bandwidth = [&](graph::Channel channel) {
    return group_bandwidth(machine, group_span(machine, grid, channel));
  };
  const auto sent = [](std::int64_t ranks) { return static_cast<double>(ranks - 1) / static_cast<double>(ranks); };
  const double rows = batch * 2048 / static_cast<double>(grid.z * grid.data);
  const double cut = static_cast<double>(grid.x * grid.y);
  double seconds = 0;
  const auto linear = [&](double in, double out, bool transposed) {
    const std::int64_t a = transposed ? grid.y : grid.x, b = transposed ? grid.x : grid.y;
    const graph::Channel over_a = transposed ? graph::Channel::y : graph::Channel::x,
                         over_b = transposed ? graph::Channel::x : graph::Channel::y;
    seconds += 3 * sent(grid.z) * in * out / cut * 2 / bandwidth(graph::Channel::z_gather);
    seconds += 2 * 2 * sent(a) * rows * out / static_cast<double>(b) * 2 / bandwidth(over_a);
    seconds += 2 * sent(b) * rows * in / static_cast<double>(a) * 2 / bandwidth(over_b);
    seconds += 2 * sent(grid.data) * in * out / cut / static_cast<double>(grid.z) * 4 / bandwidth(graph::Channel::data);
  };
  linear(hidden, 3 * hidden, false);
  linear(hidden, hidden, true);
  linear(hidden, 4 * hidden, false);
  linear(4 * hidden, hidden, true);
  return layers * seconds;
}

TEST(GroupBandwidth, GivesTheTimesOfAxonnsModel) {
  const Machine perlmutter = load("perlmutter"), frontier = load("frontier");
  EXPECT_NEAR(axonn_seconds(perlmutter, graph::Grid{1, 8, 128, 1}, 42, 12288, 1024), 4.70, 0.02);
  EXPECT_NEAR(axonn_seconds(perlmutter, graph::Grid{1, 1, 1024, 1}, 42, 12288, 1024), 5.31, 0.02);
  EXPECT_NEAR(axonn_seconds(perlmutter, graph::Grid{1, 1, 256, 1}, 32, 7168, 1024), 1.37, 0.02);
  EXPECT_NEAR(axonn_seconds(perlmutter, graph::Grid{1, 1, 4096, 1}, 38, 9216, 8192), 2.70, 0.03);
  EXPECT_NEAR(axonn_seconds(frontier, graph::Grid{1, 1, 8192, 1}, 42, 12288, 8192), 10.63, 0.04);
}

Machine plain_machine() {
  Machine machine;
  machine.devices_per_node = 4;
  machine.node.latency = 1e-6;
  machine.node.bandwidth = 1e9;
  machine.network.latency = 10e-6;
  machine.network.bandwidth = 1e8;
  machine.network_ports = 4;
  machine.hierarchical = true;
  return machine;
}

constexpr graph::Channel kX = graph::Channel::x;

double seconds(const Machine& machine, const GroupSpan& span, const graph::Operation& operation, double bytes = 1) {
  return collective_time(machine, span, operation, bytes).seconds;
}

TEST(CollectiveSeconds, OfOneNode) {
  const Machine machine = plain_machine();
  const GroupSpan four{4, 1, 4, 1, 1};
  const std::int64_t large = 4'000'000, small = 4;
  // Rings: 3 steps, 3/4 of the bytes; all-reduce twice that.
  EXPECT_NEAR(seconds(machine, four, graph::AllGather{kX, 4, large / 4}), 3e-6 + 3e-3, 1e-12);
  EXPECT_NEAR(seconds(machine, four, graph::ReduceScatter{kX, 4, large / 8}, 2), 3e-6 + 3e-3, 1e-12);
  EXPECT_NEAR(seconds(machine, four, graph::AllReduce{kX, 4, large}), 6e-6 + 6e-3, 1e-12);
  EXPECT_NEAR(seconds(machine, four, graph::Broadcast{kX, 4, large, 0}), 3e-6 + 4e-3, 1e-12);
  // One step: each rank's message to each other rank begins at once.
  EXPECT_NEAR(seconds(machine, four, graph::AllToAll{kX, 4, large / 8, 2}), 1e-6 + 3e-3, 1e-12);
  // As many bytes for equal shares, whatever the buffers hold.
  EXPECT_NEAR(seconds(machine, four, graph::ExchangeRows{kX, 4, large / 8, 8, 32, 4}), 1e-6 + 3e-3, 1e-12);
  // A tree: 2·log2(4) steps and all of the bytes twice.
  EXPECT_NEAR(seconds(machine, four, graph::AllReduce{kX, 4, small}), 4e-6 + 8e-9, 1e-12);
  EXPECT_EQ(seconds(machine, {}, graph::AllReduce{kX, 1, large}), 0);
}

TEST(CollectiveSeconds, OnTheLinkAreThoseOfItsBytes) {
  Machine machine = plain_machine();
  const GroupSpan four{4, 1, 4, 1, 1}, eight{8, 2, 4, 1, 1};
  const std::int64_t large = 8'000'000;
  const auto on_link = [&](const GroupSpan& span, const graph::Operation& operation) {
    return collective_time(machine, span, operation, 1).on_link;
  };
  EXPECT_NEAR(on_link(four, graph::AllGather{kX, 4, large / 4}), 6e-3, 1e-12);
  EXPECT_NEAR(on_link(eight, graph::AllGather{kX, 8, large / 8}), 17.5e-3, 1e-12);
  // Of a hierarchical all-reduce, the bytes between nodes.
  EXPECT_NEAR(on_link(eight, graph::AllReduce{kX, 8, large}), 20e-3, 1e-12);
  // Set-up is none of it, and neither is the slowness of the protocol for small messages.
  machine.network.setup = 1e-3;
  machine.network.small_bandwidth = 1e6;
  EXPECT_NEAR(on_link(eight, graph::AllGather{kX, 8, 10}), 70 / 0.4e9, 1e-12);
}

TEST(CollectiveSeconds, OfSeveralNodes) {
  Machine machine = plain_machine();
  const GroupSpan eight{8, 2, 4, 1, 1};
  const std::int64_t large = 8'000'000;
  // Within nodes 2·3/4·S at 1 GB/s, between them S at 0.4 GB/s: less than 2·7/8·S at 0.4.
  const double latency = 2 * (3 * 1e-6 + 10e-6);
  EXPECT_NEAR(seconds(machine, eight, graph::AllReduce{kX, 8, large}), latency + 12e-3 + 20e-3, 1e-9);
  machine.hierarchical = false;
  EXPECT_NEAR(seconds(machine, eight, graph::AllReduce{kX, 8, large}), 2 * (6e-6 + 10e-6) + 35e-3, 1e-9);
  machine.hierarchical = true;
  // The fabric of a larger job is slower.
  machine.congestion = {{8, 2}};
  EXPECT_NEAR(seconds(machine, {8, 2, 4, 1, 1, 8}, graph::AllGather{kX, 8, large / 8}), 6e-6 + 10e-6 + 35e-3, 1e-9);
  // A ring crosses once each way.
  EXPECT_NEAR(seconds(machine, eight, graph::AllGather{kX, 8, large / 8}), 6e-6 + 10e-6 + 17.5e-3, 1e-9);
  // Latency of a ring grows with its ranks, latency of a tree with their logarithm.
  const GroupSpan many{1024, 1024, 1, 4, 4};
  EXPECT_NEAR(seconds(machine, many, graph::AllGather{kX, 1024, 1}), 1023 * 10e-6, 1e-4);
  EXPECT_NEAR(seconds(machine, many, graph::AllReduce{kX, 1024, 1}), 20 * 10e-6, 1e-6);
  // The protocol of small messages doesn't wait for the setup.
  machine.network.setup = 1e-3;
  machine.network.small_bandwidth = 1e6;
  EXPECT_NEAR(seconds(machine, many, graph::AllReduce{kX, 1024, 100}), 20 * 10e-6 + 2e-4, 1e-6);
  EXPECT_NEAR(seconds(machine, eight, graph::AllReduce{kX, 8, large}), latency + 33e-3, 1e-9);
}

TEST(AnalyticCosts, AreOfOperationsSizesAndGroups) {
  Machine machine = plain_machine();
  machine.flops_f32 = 1e9;
  machine.gemm_half = 100;
  machine.memory_bandwidth = 1e9;
  machine.task_overhead = 1e-6;
  machine.transport_cpu = 0.5e-9;
  testing::ToyGraph toy;
  const graph::View a = toy.tensor("a", 10'000, graph::Role::parameter),
                    b = toy.tensor("b", 10'000, graph::Role::parameter), c = toy.tensor("c", 10'000);
  toy.add({"gemm", graph::Gemm{100, 100, 100}, {graph::read(a), graph::read(b), graph::write(c)}});
  toy.add({"add", graph::Add{10'000}, {graph::read(a), graph::read(b), graph::write(c)}});
  toy.add({"sum", graph::AllReduce{graph::Channel::x, 2, 10'000}, {graph::read_write(c)}});
  toy.add({"far", graph::AllReduce{graph::Channel::data, 2, 10'000}, {graph::read_write(c)}});
  const auto graph = toy.build();
  const TaskCosts costs = analytic_costs(machine, graph::Grid{2, 1, 2, 2})->costs(*graph);
  ASSERT_EQ(costs.ns.size(), 4U);
  EXPECT_NEAR(costs.ns[0], 1e3 + 2 * 2e6, 1e-3);  // half of the rate
  EXPECT_NEAR(costs.ns[1], 1e3 + 12 * 1e4, 1e-3);
  EXPECT_NEAR(costs.ns[2], 2e3 + 4e4, 1e-3);
  EXPECT_NEAR(costs.ns[3], 2e4 + 4e5, 1e-3);  // four groups share four ports
  EXPECT_EQ(costs.cpu_ns[0], 0);
  EXPECT_NEAR(costs.cpu_ns[2], 2e4, 1e-3);
  // A graph of another grid: its operations name the groups.
  EXPECT_NEAR(analytic_costs(machine, graph::Grid())->costs(*graph).ns[2], 2e3 + 4e4, 1e-3);
  EXPECT_GT(default_cost_model().costs(*graph).ns[2], 0);
  EXPECT_EQ(analytic_costs(machine, graph::Grid())->source(), "machine laptop");
}

TEST(RankGroups, AreTheGroupsOfAnAxis) {
  const graph::Grid grid = RankGroups{2, 4}.grid(16);
  EXPECT_EQ(grid.ranks(), 16);
  const auto color = [&](std::int64_t rank) { return graph::group_color(grid, RankGroups::kChannel, rank); };
  EXPECT_EQ(graph::group_size(grid, RankGroups::kChannel), 2);
  EXPECT_EQ(color(1), color(5));
  EXPECT_NE(color(1), color(2));
  EXPECT_NE(color(1), color(9));
}

TEST(RankGroups, WithinANodeLeaveOutTheWholeNode) {
  EXPECT_TRUE(groups_within_node(1).empty());
  EXPECT_TRUE(groups_within_node(2).empty());
  EXPECT_TRUE(groups_within_node(3).empty());
  EXPECT_EQ(groups_within_node(4), (std::vector<RankGroups>{{2, 1}, {2, 2}}));
  EXPECT_EQ(groups_within_node(6), (std::vector<RankGroups>{{2, 1}, {2, 3}, {3, 1}, {3, 2}}));
  EXPECT_EQ(groups_within_node(8), (std::vector<RankGroups>{{2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}}));
}

TEST(RankGroups, OfManyRanksAreThoseOfOuterAndInnerAxes) {
  EXPECT_EQ(groups_within_node(64, 1000).size(), 20U);
  const std::vector<RankGroups> some = groups_within_node(64);
  EXPECT_EQ(some.size(), 12U);
  int outside = 0;
  for (const RankGroups& each : some) {
    EXPECT_EQ(64 % (each.ranks * each.stride), 0);
    if (each.stride == 1 || each.ranks * each.stride == 64) ++outside;
  }
  EXPECT_EQ(outside, 10);
}

}  // namespace
}  // namespace weft::cost
