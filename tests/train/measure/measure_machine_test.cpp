// A machine measured on in-process ranks, in tiny sizes: complete, plausible and the same on each rank.
#include "train/measure/measure_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_fit.h"
#include "runtime/cost/machine_numbers.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/forwarding_world.h"
#include "train/measure/machine_timer.h"

namespace weft::train {
namespace {

MachineSizes tiny_sizes() {
  MachineSizes sizes;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n : {16, 48}) {
      sizes.gemms.push_back({.m = n, .n = 2 * n, .k = 32, .dtype = dtype});
      sizes.gemms.push_back({.m = n, .n = 2 * n, .k = 32, .trans_b = true, .dtype = dtype});
      sizes.gemms.push_back({.m = n, .n = 2 * n, .k = 32, .trans_a = true, .dtype = dtype});
    }
    for (const bool backward : {false, true}) {
      sizes.attention.push_back(
          {.backward = backward, .batch = 1, .heads = 2, .seq = 16, .head_dim = 16, .dtype = dtype});
    }
  }
  sizes.memory_elements = 4096;
  sizes.collective_bytes = {1024, 65536};
  sizes.tasks = 20;
  sizes.repeats = sizes.rounds_beside = 2;
  sizes.least_seconds = 1e-4;
  return sizes;
}

/// By rank, with all ranks on one node or with `on_node` on each.
std::vector<cost::Machine> measured(int ranks, std::vector<std::string>* told = nullptr, int on_node = 0) {
  std::vector<cost::Machine> machines(static_cast<std::size_t>(ranks));
  const MachineSizes sizes = tiny_sizes();
  testing::on_ranks(ranks, [&](comm::World& local) {
    testing::RanksOnNodes world(local, on_node > 0 ? on_node : ranks);
    machines[static_cast<std::size_t>(world.rank())] =
        measure_machine(world, "mine", sizes, *make_cpu_timer(world, sizes, 1), [&](const Status& status) {
          EXPECT_EQ(world.rank(), 0);
          EXPECT_LT(status.done, status.total);
          if (told != nullptr) told->push_back(status.text);
        });
  });
  return machines;
}

void expect_plausible(const cost::Machine& machine) {
  for (const cost::MachineNumber& number : machine_numbers(machine)) {
    EXPECT_TRUE(std::isfinite(number.value)) << number.key;
    EXPECT_GE(number.value, 0) << number.key;
  }
  EXPECT_GT(machine.memory_bandwidth, 0);
  EXPECT_GT(machine.memory_bytes, 1e6);
  EXPECT_GT(machine.task_overhead, 0);
  EXPECT_LE(machine.efficiency, 1);
  EXPECT_TRUE(machine.shared_cores);
  for (const cost::GemmPoint& point : machine.gemms) {
    EXPECT_GT(point.seconds, 0);
    EXPECT_FALSE(point.source.empty());
  }
  for (const cost::AttentionPoint& point : machine.attention) EXPECT_GT(point.seconds, 0);
  for (const cost::CalibrationPoint& point : machine.calibration) EXPECT_GT(point.seconds, 0);
  for (const cost::Provenance& number : machine.provenance) {
    EXPECT_FALSE(number.source.empty()) << number.key;
    EXPECT_FALSE(number.status.empty()) << number.key;
  }
}

TEST(MeasureMachine, OfTwoRanksIsCompleteAndTheSameOnBoth) {
  std::vector<std::string> told;
  const std::vector<cost::Machine> machines = measured(2, &told);
  const cost::Machine& machine = machines[0];
  EXPECT_EQ(cost::machine_toml(machine), cost::machine_toml(machines[1]));
  expect_plausible(machine);
  EXPECT_EQ(machine.name, "mine");
  EXPECT_EQ(machine.devices_per_node, 2);
  EXPECT_EQ(machine.gemms.size(), tiny_sizes().gemms.size());
  EXPECT_EQ(machine.attention.size(), tiny_sizes().attention.size());
  EXPECT_EQ(machine.calibration.size(), 8U);  // four kinds in two sizes
  std::set<std::string> kinds;
  for (const cost::CalibrationPoint& point : machine.calibration) {
    kinds.insert(point.kind);
    EXPECT_EQ(point.ranks, 2);
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"all_reduce", "all_gather", "reduce_scatter", "broadcast"}));
  EXPECT_EQ(unsure_numbers(machine), (std::vector<std::string>{"network.latency", "network.bandwidth"}));
  EXPECT_EQ(told.size(), machine.gemms.size() + machine.attention.size() + machine.calibration.size() + 5);
}

const cost::MachineNumber* number_of(const std::vector<cost::MachineNumber>& numbers, const std::string& key) {
  const auto found = std::ranges::find(numbers, key, &cost::MachineNumber::key);
  return found == numbers.end() ? nullptr : &*found;
}

TEST(MeasureMachine, OfFourRanksHasTheGroupsOfTheirNode) {
  std::vector<std::string> told;
  const std::vector<cost::Machine> machines = measured(4, &told);
  const cost::Machine& machine = machines[0];
  EXPECT_EQ(cost::machine_toml(machine), cost::machine_toml(machines[3]));
  expect_plausible(machine);
  ASSERT_EQ(machine.node_groups.size(), 2U);
  const std::vector<cost::MachineNumber> numbers = machine_numbers(machine);
  for (const std::string group : {"[ranks=2, stride=1]", "[ranks=2, stride=2]"}) {
    const cost::MachineNumber* bandwidth = number_of(numbers, "node.group" + group + ".bandwidth");
    ASSERT_NE(bandwidth, nullptr) << group;
    EXPECT_GT(bandwidth->value, 0);
    EXPECT_EQ(bandwidth->status, "fitted");
    EXPECT_TRUE(bandwidth->source.starts_with("to 3 large collectives on 2 groups at once, ")) << bandwidth->source;
  }
  EXPECT_EQ(number_of(numbers, "network.ports")->status, "default");  // there is one node
  EXPECT_EQ(machine.calibration.size(), 8U);                          // as many as without groups
  EXPECT_EQ(told.size(), machine.gemms.size() + machine.attention.size() + machine.calibration.size() + 5 + 2 * 3);
}

TEST(MeasureMachine, OfSeveralNodesHasTheirPorts) {
  std::vector<std::string> told;
  const cost::Machine machine = measured(4, &told, 2)[0];
  expect_plausible(machine);
  EXPECT_EQ(machine.devices_per_node, 2);
  EXPECT_TRUE(machine.node_groups.empty());  // a pair of ranks is the whole node
  EXPECT_GE(machine.network_ports, 1);
  EXPECT_LE(machine.network_ports, 2);
  const std::vector<cost::MachineNumber> numbers = machine_numbers(machine);
  EXPECT_EQ(number_of(numbers, "network.ports")->status, "measured");
  EXPECT_EQ(number_of(numbers, "network.bandwidth")->status, "fitted");
  EXPECT_TRUE(unsure_numbers(machine).empty());
  ASSERT_EQ(machine.calibration.size(), 16U);
  EXPECT_EQ(machine.calibration.front().ranks, 2);
  EXPECT_EQ(machine.calibration.back().ranks, 4);
  EXPECT_EQ(told.size(), machine.gemms.size() + machine.attention.size() + machine.calibration.size() + 3 + 4 + 6);
  // A rank a node has its ports for itself.
  const cost::Machine apart = measured(2, nullptr, 1)[0];
  EXPECT_EQ(number_of(machine_numbers(apart), "network.ports")->status, "default");
}

TEST(MeasureMachine, OfOneRankAssumesTheLinksAndSaysSo) {
  const cost::Machine machine = measured(1)[0];
  expect_plausible(machine);
  EXPECT_TRUE(machine.calibration.empty());
  EXPECT_EQ(unsure_numbers(machine),
            (std::vector<std::string>{"node.latency", "node.bandwidth", "network.latency", "network.bandwidth"}));
}

TEST(MeasureMachine, KeepsItsOwnErrors) {
  const cost::Machine machine = measured(2)[0];
  for (const cost::CheckedPoint& point : cost::check_points(machine)) {
    EXPECT_TRUE(point.holds() || point.allowed == 10) << point.what << " " << point.error();
  }
  for (const cost::GemmPoint& point : machine.gemms) {
    EXPECT_NEAR(cost::predicted_seconds(machine, point) / point.seconds, 1, 1e-9);
  }
}

TEST(MachineSizes, AreOfAllKindsAndFewerWhenQuick) {
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    const MachineSizes full = machine_sizes(device, false), quick = machine_sizes(device, true);
    EXPECT_EQ(full.gemms.size(), 36U);  // six shapes, three layouts, two dtypes
    EXPECT_EQ(quick.gemms.size(), 18U);
    EXPECT_EQ(full.attention.size(), 16U);  // four sizes, both directions, two dtypes
    EXPECT_EQ(quick.attention.size(), 8U);
    EXPECT_EQ(full.collective_bytes.front(), 1024);
    EXPECT_LT(quick.collective_bytes.size(), full.collective_bytes.size());
    EXPECT_LT(quick.repeats, full.repeats);
  }
}

TEST(MachineSizes, OfGpusAreLarger) {
  const MachineSizes cpu = machine_sizes(DeviceKind::cpu, false), gpu = machine_sizes(DeviceKind::cuda, false);
  EXPECT_EQ(cpu.collective_bytes.back(), 1 << 24);
  EXPECT_EQ(gpu.collective_bytes.back(), 1 << 28);
  const auto flops = [](const cost::GemmPoint& point) { return point.m * point.n * point.k; };
  EXPECT_GT(std::ranges::min(gpu.gemms, {}, flops).m, std::ranges::min(cpu.gemms, {}, flops).m);
  EXPECT_GE(gpu.memory_elements * 4, std::int64_t{1} << 28);
}

}  // namespace
}  // namespace weft::train
