// `weft machine measure --device cuda` in tiny sizes: on one GPU, and on ranks with a GPU each, where there are some.
#include "train/measure/measure_machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/cost/machine.h"
#include "runtime/cost/machine_numbers.h"
#include "tests/gpu/gpu_test.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/forwarding_world.h"
#include "train/measure/machine_timer.h"

namespace weft::train {
namespace {

MachineSizes tiny_sizes() {
  MachineSizes sizes;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool transposed : {false, true}) {
      // Large beside the attention: on a GPU both take as long as a start, and a file refuses an attention at ten times
      // the rate of its products.
      sizes.gemms.push_back({.m = 64, .n = 96, .k = 48, .trans_b = transposed, .dtype = dtype});
      sizes.attention.push_back(
          {.backward = transposed, .batch = 1, .heads = 2, .seq = 32, .head_dim = 16, .dtype = dtype});
    }
  }
  sizes.memory_elements = 4096;
  sizes.collective_bytes = {1024, 16384};
  sizes.tasks = 10;
  sizes.product_beside = 32;
  sizes.repeats = sizes.rounds_beside = 2;
  sizes.least_seconds = 1e-5;
  return sizes;
}

class MeasureGpu : public testing::GpuTest {
 protected:
  static std::string gpu() {
    const std::string text = execute::report_devices().devices.front();  // "NVIDIA H200, 139.8 GiB, …"
    return text.substr(0, text.find(','));
  }

  /// By rank.
  static std::vector<cost::Machine> measured(int ranks, std::vector<std::string>& told) {
    std::vector<cost::Machine> machines(static_cast<std::size_t>(ranks));
    const MachineSizes sizes = tiny_sizes();
    const auto body = [&](comm::World& world) {
      const auto timer = make_gpu_timer(world, sizes);
      machines[static_cast<std::size_t>(world.rank())] =
          measure_machine(world, "gpus", sizes, *timer, [&](const Status& status) { told.push_back(status.text); });
    };
    testing::on_ranks(ranks, body);
    return machines;
  }

  static void expect_plausible(const cost::Machine& machine) {
    EXPECT_TRUE(machine.source.starts_with("weft machine measure on " + gpu())) << machine.source;
    for (const cost::MachineNumber& number : machine_numbers(machine)) {
      EXPECT_TRUE(std::isfinite(number.value)) << number.key;
      EXPECT_GE(number.value, 0) << number.key;
    }
    EXPECT_GT(machine.flops_f32, 0);
    EXPECT_GT(machine.flops_bf16, 0);
    EXPECT_GT(machine.memory_bandwidth, 0);
    EXPECT_GT(machine.memory_bytes, 1e6);
    EXPECT_GT(machine.task_overhead, 0);
    EXPECT_GT(machine.efficiency, 0);
    EXPECT_FALSE(machine.shared_cores);
    EXPECT_EQ(machine.transport_cpu, 0);
    EXPECT_EQ(machine.cores, 1);
    const MachineSizes sizes = tiny_sizes();
    EXPECT_EQ(machine.gemms.size(), sizes.gemms.size());
    EXPECT_EQ(machine.attention.size(), sizes.attention.size());
    for (const cost::GemmPoint& point : machine.gemms) EXPECT_GT(point.seconds, 0);
    for (const cost::AttentionPoint& point : machine.attention) EXPECT_GT(point.seconds, 0);
    for (const cost::CalibrationPoint& point : machine.calibration) EXPECT_GT(point.seconds, 0);
    for (const cost::Slowdown& each : machine.slowdowns) EXPECT_EQ(each.collective, "all_reduce");
    for (const cost::Provenance& number : machine.provenance) {
      EXPECT_FALSE(number.source.empty()) << number.key;
      EXPECT_FALSE(number.status.empty()) << number.key;
    }
  }
};

TEST_F(MeasureGpu, OneGpuAssumesTheLinks) {
  std::vector<std::string> told;
  const cost::Machine machine = measured(1, told).front();
  expect_plausible(machine);
  EXPECT_TRUE(machine.calibration.empty());
  EXPECT_EQ(unsure_numbers(machine),
            (std::vector<std::string>{"node.latency", "node.bandwidth", "network.latency", "network.bandwidth"}));
  EXPECT_EQ(told.size(), machine.gemms.size() + machine.attention.size() + 3);
}

TEST_F(MeasureGpu, RanksWithAGpuEachMeasureNccl) {
  if (execute::report_devices().devices.size() < 4) GTEST_SKIP() << "needs 4 GPUs";
  std::vector<std::string> told;
  const std::vector<cost::Machine> machines = measured(4, told);
  const cost::Machine& machine = machines.front();
  expect_plausible(machine);
  EXPECT_EQ(cost::machine_toml(machine), cost::machine_toml(machines.back()));
  EXPECT_EQ(machine.devices_per_node, 4);
  EXPECT_EQ(machine.calibration.size(), 8U);  // four kinds in two sizes
  ASSERT_EQ(machine.node_groups.size(), 2U);
  EXPECT_GT(machine.node_groups[0].bandwidth, 0);
  EXPECT_GT(machine.node_groups[1].bandwidth, 0);
  EXPECT_EQ(unsure_numbers(machine), (std::vector<std::string>{"network.latency", "network.bandwidth"}));
  EXPECT_EQ(told.size(), machine.gemms.size() + machine.attention.size() + machine.calibration.size() + 5 + 2 * 3);
}

// As for the ports of a node: one group has an array, the others next to nothing.
TEST_F(MeasureGpu, GroupsMayHaveArraysOfDifferentSizes) {
  if (execute::report_devices().devices.size() < 4) GTEST_SKIP() << "needs 4 GPUs";
  const MachineSizes sizes = tiny_sizes();
  const auto body = [&](comm::World& world) {
    const auto timer = make_gpu_timer(world, sizes);
    const std::int64_t bytes = world.rank() % 2 == 0 ? 16384 : 0;
    const std::vector<TimedCollective> collectives = {{comm::CollectiveKind::all_reduce, bytes},
                                                      {comm::CollectiveKind::all_gather, bytes},
                                                      {comm::CollectiveKind::reduce_scatter, bytes}};
    std::vector<std::size_t> begun;
    const std::vector<double> seconds =
        timer->collective_seconds({2, 2}, collectives, [&](std::size_t next) { begun.push_back(next); });
    EXPECT_EQ(begun, (std::vector<std::size_t>{0, 1, 2}));
    EXPECT_EQ(seconds.size(), 3U);
    for (const double each : seconds) EXPECT_GT(each, 0);
  };
  testing::on_ranks(4, body);
}

TEST_F(MeasureGpu, RanksThatShareAGpuAreRefused) {
  const MachineSizes sizes = tiny_sizes();
  const testing::RanksEnd end = testing::end_of_ranks(2, [&](comm::World& world) {
    testing::RanksOnNodes shared(world, 1);  // both take the first GPU
    make_gpu_timer(shared, sizes);
  });
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.errors.find("2 ranks and 1 GPU;"), std::string::npos) << end.errors;
}

}  // namespace
}  // namespace weft::train
