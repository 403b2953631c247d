#include "runtime/cost/machine_check.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::cost {
namespace {

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
