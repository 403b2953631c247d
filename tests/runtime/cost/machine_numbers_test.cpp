#include "runtime/cost/machine_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::cost {
namespace {

Machine machine_with(const std::string& more) {
  return parse_machine(R"(name = "box"
source = "a page"
devices-per-node = 8
[device]
flops-f32 = 1e12
flops-bf16 = { value = 271.2e12, source = "a paper", status = "unverified" }
memory-bandwidth = 1e11
memory-bytes = 40e9
[node]
latency = { value = 5.9e-6, status = "assumed" }
bandwidth = 1e10
[network]
latency = 2e-6
bandwidth = 1e9
)" + more,
                       "box.toml");
}

MachineNumber number_of(const Machine& machine, const std::string& key) {
  const std::vector<MachineNumber> numbers = machine_numbers(machine);
  const auto found = std::ranges::find(numbers, key, &MachineNumber::key);
  return found == numbers.end() ? MachineNumber{} : *found;
}

TEST(MachineNumbers, SayWhatEachRestsOn) {
  const Machine machine = machine_with("");
  EXPECT_EQ(number_of(machine, "device.flops-bf16"),
            (MachineNumber{"device.flops-bf16", 271.2e12, MachineUnit::operations_a_second, "unverified", "a paper"}));
  EXPECT_EQ(number_of(machine, "node.latency"),
            (MachineNumber{"node.latency", 5.9e-6, MachineUnit::seconds, "assumed", "a page"}));
  EXPECT_EQ(number_of(machine, "device.memory-bytes"),
            (MachineNumber{"device.memory-bytes", 40e9, MachineUnit::bytes, "", "a page"}));
  EXPECT_EQ(number_of(machine, "device.gemm-half"),
            (MachineNumber{"device.gemm-half", 0, MachineUnit::number, "default", ""}));
}

TEST(MachineNumbers, NameItemsOfListsByTheirMeaning) {
  const Machine machine = machine_with(R"([[node.group]]
ranks = 2
stride = 1
bandwidth = 3e9
[[node.group]]
ranks = 2
stride = 4
bandwidth = { value = 4e9, status = "assumed" }
[[slowdown]]
compute = "gemm"
collective = "all_reduce"
factor = 1.2
[[slowdown]]
factor = { value = 1.5, source = "a clock" }
)");
  EXPECT_EQ(number_of(machine, "node.group[ranks=2, stride=1].bandwidth").status, "");
  EXPECT_EQ(number_of(machine, "node.group[ranks=2, stride=4].bandwidth").status, "assumed");
  EXPECT_EQ(number_of(machine, "slowdown[any beside any].factor").source, "a clock");
  EXPECT_EQ(number_of(machine, "slowdown[gemm beside all_reduce].factor").source, "a page");
  EXPECT_EQ(number_of(machine, "slowdown[gemm beside all_reduce].factor").value, 1.2);
}

TEST(MachineNumbers, AreShownWithUnitsOfASuitableSize) {
  const auto text = [](double value, MachineUnit unit) { return value_text({"", value, unit, "", ""}); };
  EXPECT_EQ(text(271.2e12, MachineUnit::operations_a_second), "271.2 Tflop/s");
  EXPECT_EQ(text(1e15, MachineUnit::operations_a_second), "1 Pflop/s");
  EXPECT_EQ(text(119.4e6, MachineUnit::bytes_a_second), "119.4 MB/s");
  EXPECT_EQ(text(5.9e-6, MachineUnit::seconds), "5.9 us");
  EXPECT_EQ(text(0, MachineUnit::seconds), "0 s");
  EXPECT_EQ(text(1.4e-10, MachineUnit::seconds_a_byte), "140 ps/B");
  EXPECT_EQ(text(40e9, MachineUnit::bytes), "37.3 GiB");
  EXPECT_EQ(text(1.25, MachineUnit::number), "1.25");
}

TEST(MachineNumbers, TellTheUnsureOnesInOneLine) {
  EXPECT_EQ(unsure_numbers(machine_with("")), (std::vector<std::string>{"device.flops-bf16", "node.latency"}));
  const std::string slow = "[[slowdown]]\nfactor = { value = 1.5, status = \"assumed\" }\n";
  EXPECT_EQ(unsure_numbers(machine_with("[[slowdown]]\ncompute = \"gemm\"\nfactor = 2\n" + slow)).size(), 3U);
  EXPECT_EQ(unsure_text({}), "");
  EXPECT_EQ(unsure_text(std::vector<std::string>{"a"}), "1 of its numbers is unverified or assumed: a");
  EXPECT_EQ(unsure_text(std::vector<std::string>{"a", "b", "c", "d", "e"}),
            "5 of its numbers are unverified or assumed: a, b, c and 2 more");
}

TEST(MachineNumbers, WarnOfRatesOfProductsThatNothingMeasured) {
  Machine machine;
  machine.flops_f32 = 1e12;
  machine.flops_bf16 = 2e12;
  EXPECT_TRUE(unmeasured_text(machine).empty());  // no units for bf16
  machine.flops_bf16 = 3e12;
  EXPECT_FALSE(unmeasured_text(machine).empty());
  machine.gemms = {{.m = 1, .n = 1, .k = 1, .seconds = 1}};
  EXPECT_TRUE(unmeasured_text(machine).empty());
}

TEST(MachineNumbers, PutPointsIntoWords) {
  EXPECT_EQ(point_text(GemmPoint{.m = 512, .n = 256, .k = 128, .trans_b = true, .dtype = DType::bf16}),
            "gemm 512x256x128 nt bf16");
  EXPECT_EQ(point_text(AttentionPoint{.backward = true, .batch = 2, .heads = 4, .seq = 128, .head_dim = 64}),
            "attention backward, 2 x 4 heads of 64, seq 128, f32");
  CalibrationPoint point;
  point.kind = "all_reduce";
  point.ranks = 8;
  point.bytes = 4 << 20;
  EXPECT_EQ(point_text(point), "all_reduce of 4.0 MiB, 8 ranks");
}

}  // namespace
}  // namespace weft::cost
