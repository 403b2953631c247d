#include "runtime/cost/machine_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "runtime/cost/cost_model.h"

namespace weft::cost {
namespace {

std::vector<CalibrationPoint> collectives_of(const Machine& machine, std::int64_t ranks) {
  std::vector<CalibrationPoint> points;
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}) {
    for (double bytes = 1024; bytes <= 1 << 24; bytes *= 4) {
      CalibrationPoint& point = points.emplace_back();
      point.kind = kind;
      point.ranks = ranks;
      point.bytes = bytes;
      point.seconds = predicted_seconds(machine, point);
    }
  }
  return points;
}

TEST(MachineFit, FindsTheLinkThatMadeThePoints) {
  Machine truth;
  truth.devices_per_node = 4;
  truth.node = {.latency = 3e-6, .bandwidth = 7e9};
  truth.network = {.latency = 40e-6, .bandwidth = 0.5e9};
  Machine machine = truth;
  machine.node = machine.network = {};
  fit_link(machine, &Machine::node, collectives_of(truth, 4));
  EXPECT_NEAR(machine.node.latency / truth.node.latency, 1, 0.02);
  EXPECT_NEAR(machine.node.bandwidth / truth.node.bandwidth, 1, 0.02);
  fit_link(machine, &Machine::network, collectives_of(truth, 16));
  EXPECT_NEAR(machine.network.latency / truth.network.latency, 1, 0.02);
  EXPECT_NEAR(machine.network.bandwidth / truth.network.bandwidth, 1, 0.02);
}

TEST(MachineFit, FindsTheBandwidthOfGroupsWithinANode) {
  Machine truth;
  truth.devices_per_node = 8;
  truth.node = {.latency = 3e-6, .bandwidth = 7e9};
  truth.node_groups = {{4, 2, 2e9}};
  const RankGroups groups{4, 2};
  std::vector<CalibrationPoint> points;
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter"}) {
    CalibrationPoint& point = points.emplace_back();
    point.kind = kind;
    point.ranks = groups.ranks;
    point.bytes = 1 << 24;
    point.seconds = predicted_seconds(truth, point, groups, 16);
    EXPECT_GT(point.seconds, 2 * predicted_seconds(truth, point, {4, 1}, 16));
  }
  Machine machine = truth;
  machine.node_groups.clear();
  fit_node_group(machine, {groups, 16, points});
  ASSERT_EQ(machine.node_groups.size(), 1U);
  EXPECT_EQ(machine.node_groups[0].ranks, 4);
  EXPECT_EQ(machine.node_groups[0].stride, 2);
  EXPECT_NEAR(machine.node_groups[0].bandwidth / 2e9, 1, 0.01);
}

TEST(MachineFit, NeighboursThatShareALinkCountForItsBandwidth) {
  Machine truth;
  truth.devices_per_node = 4;
  truth.network = {.latency = 40e-6, .bandwidth = 0.5e9};
  const std::vector<CalibrationPoint> world = collectives_of(truth, 16);
  const RankGroups groups{4, 4};
  CalibrationPoint point;
  point.kind = "all_reduce";
  point.ranks = groups.ranks;
  point.bytes = 1 << 24;
  point.seconds = predicted_seconds(truth, point, groups, 16) / 2;
  Machine machine = truth, with_neighbours = truth;
  fit_link(machine, &Machine::network, world);
  fit_link(with_neighbours, &Machine::network, world, {groups, 16, std::span(&point, 1)});
  EXPECT_NEAR(machine.network.bandwidth / 0.5e9, 1, 0.02);
  EXPECT_GT(with_neighbours.network.bandwidth, 1.02 * machine.network.bandwidth);
  EXPECT_LT(with_neighbours.network.bandwidth, 1.5 * machine.network.bandwidth);
  EXPECT_NEAR(with_neighbours.network.latency / machine.network.latency, 1, 0.05);
}

TEST(MachineFit, FindsTheSizeAtWhichProductsReachHalfOfTheirRate) {
  Machine truth;
  truth.memory_bandwidth = 1e18;
  truth.gemm_half = 100;
  Machine machine = truth;
  for (const std::int64_t n : {32, 128, 512, 2048}) {
    GemmPoint point{.m = n, .n = n, .k = n};
    point.seconds = predicted_seconds(truth, point);
    machine.gemms.push_back(point);
  }
  EXPECT_NEAR(fitted_gemm_half(machine), 100, 3);
}

TEST(MachineFit, NotesErrorsThatTheModelKeeps) {
  Machine machine;
  for (const std::int64_t n : {32, 128, 512, 2048}) {
    machine.gemms.push_back({.m = n, .n = n, .k = n, .seconds = 1e-9 * std::pow(static_cast<double>(n), 2.5)});
  }
  machine.attention = {{.batch = 1, .heads = 2, .seq = 64, .head_dim = 32, .seconds = 1e-3}};
  machine.node = {.latency = 3e-6, .bandwidth = 7e9};
  machine.calibration = collectives_of(machine, 2);
  for (CalibrationPoint& point : machine.calibration) point.seconds *= 1.3;
  note_errors(machine);
  EXPECT_NEAR(machine.calibration.front().error, 0.3, 1e-9);
  for (const GemmPoint& point : machine.gemms) EXPECT_GE(point.error, 0.1);
  EXPECT_TRUE(std::ranges::all_of(check_points(machine), &CheckedPoint::holds));
}

GemmPoint square(std::int64_t n, double factor, double error) {
  return {.m = n, .n = n, .k = n, .seconds = factor * 2 * std::pow(static_cast<double>(n), 3) / 1e9, .error = error};
}

TEST(MachineCheck, PredictsAPointFromTheOthers) {
  Machine machine;
  machine.flops_f32 = 1e9;
  machine.memory_bandwidth = 1e18;
  machine.gemms = {square(128, 2, 0.5), square(256, 2, 0.1), square(512, 1, 0.5)};
  const std::vector<CheckedPoint> checked = check_points(machine);
  ASSERT_EQ(checked.size(), 3U);
  EXPECT_EQ(checked[0].what, "gemm 128x128x128 nn f32");
  // Its neighbours are one and two steps away: weights 1 and 1/4.
  EXPECT_NEAR(checked[0].error(), std::exp(0.8 * std::log(2.0)) / 2 - 1, 1e-9);
  EXPECT_TRUE(checked[0].holds());
  EXPECT_NEAR(checked[1].error(), std::sqrt(2.0) / 2 - 1, 1e-9);
  EXPECT_FALSE(checked[1].holds());
  EXPECT_NEAR(checked[2].error(), 1, 1e-9);
  EXPECT_FALSE(checked[2].holds());
}

TEST(MachineCheck, OfOnePointComparesWithTheDevicesRate) {
  Machine machine;
  machine.flops_f32 = 1e9;
  machine.memory_bandwidth = 1e18;
  machine.efficiency = 0.5;
  machine.gemms = {square(128, 2.5, 0.3)};
  machine.attention = {{.batch = 1, .heads = 2, .seq = 64, .head_dim = 32, .seconds = 1e-3}};
  const std::vector<CheckedPoint> checked = check_points(machine);
  ASSERT_EQ(checked.size(), 2U);
  EXPECT_NEAR(checked[0].predicted / checked[0].measured, 0.8, 1e-9);
  EXPECT_TRUE(checked[0].holds());
  EXPECT_NEAR(checked[1].predicted, 2.0 * 2 * 64 * 65 * 32 / 0.5e9, 1e-12);
}

}  // namespace
}  // namespace weft::cost
