#include "train/measure/machine_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::train {
namespace {

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
