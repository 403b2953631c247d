#include "runtime/cost/machine_toml.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/cost/machine_numbers.h"

namespace weft::cost {
namespace {

void expect_same(const Machine& machine, const Machine& read) {
  EXPECT_EQ(read.name, machine.name);
  EXPECT_EQ(read.source, machine.source);
  const std::vector<MachineNumber> before = machine_numbers(machine), after = machine_numbers(read);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].key, before[i].key);
    EXPECT_EQ(after[i].value, before[i].value) << before[i].key;
    EXPECT_EQ(after[i].source, before[i].source) << before[i].key;
    EXPECT_EQ(after[i].status, before[i].status) << before[i].key;
  }
  EXPECT_EQ(unsure_numbers(read), unsure_numbers(machine));
  ASSERT_EQ(read.calibration.size(), machine.calibration.size());
  for (std::size_t i = 0; i < read.calibration.size(); ++i) {
    EXPECT_EQ(point_text(read.calibration[i]), point_text(machine.calibration[i]));
    EXPECT_NEAR(read.calibration[i].seconds / machine.calibration[i].seconds, 1, 1e-3);
    EXPECT_EQ(read.calibration[i].error, machine.calibration[i].error);
    EXPECT_EQ(read.calibration[i].source, machine.calibration[i].source);
  }
}

TEST(MachineToml, WritesWhatIsReadBack) {
  for (const auto& file : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/machines")) {
    const Machine machine = load_machine(file.path().string());
    expect_same(machine, parse_machine(machine_toml(machine), "written"));
  }
}

TEST(MachineToml, WritesPointsListsAndAnyText) {
  Machine machine;
  machine.name = "a \"box\"\n\\";
  machine.source = "µ";
  machine.efficiency = 0.25;
  machine.gemms = {
      {.m = 1, .n = 2, .k = 3, .trans_a = true, .dtype = DType::bf16, .seconds = 1.23456e-7, .source = "x"},
      {.m = 4, .n = 5, .k = 6, .trans_b = true, .seconds = 2, .error = 0.15}};
  machine.attention = {{.backward = true, .batch = 1, .heads = 2, .seq = 3, .head_dim = 4, .seconds = 1e-4}};
  CalibrationPoint product;
  product.kind = "gemm";
  product.m = product.n = product.k = 100;
  product.seconds = 1;
  machine.calibration = {product};
  machine.slowdowns = {{"gemm", "", 1.5}, {"", "all_reduce", 1.25}};
  machine.node_groups = {{2, 1, 5e9}};
  machine.shared_cores = true;
  machine.hierarchical = true;
  machine.congestion = {{16, 1.5}, {1024, 2}};
  machine.provenance = {{"slowdown.factor", "a clock", "measured", 1}, {"network.latency", "", "assumed", 0}};
  const Machine read = parse_machine(machine_toml(machine), "written");
  expect_same(machine, read);
  ASSERT_EQ(read.gemms.size(), 2U);
  EXPECT_EQ(point_text(read.gemms[0]), "gemm 1x2x3 tn bf16");
  EXPECT_EQ(read.gemms[0].seconds, 1.235e-7);
  EXPECT_EQ(read.gemms[0].source, "x");
  EXPECT_EQ(read.gemms[1].error, 0.15);
  ASSERT_EQ(read.attention.size(), 1U);
  EXPECT_EQ(point_text(read.attention[0]), point_text(machine.attention[0]));
  EXPECT_TRUE(read.shared_cores);
}

}  // namespace
}  // namespace weft::cost
