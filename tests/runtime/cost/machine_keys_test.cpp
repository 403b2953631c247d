#include "runtime/cost/machine_keys.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/cost/machine.h"
#include "tests/base/messages.h"

namespace weft::cost {
namespace {

Machine changed(const std::string& key, const std::string& value) {
  Machine machine;
  set_machine_number(machine, find_machine_key(key, "--over"), value, "--over: machine." + key);
  return machine;
}

TEST(MachineKeys, AreTheNumbersOfAMachineThatStandAlone) {
  std::set<std::string> keys, numbers;
  for (const MachineKey& key : machine_keys()) EXPECT_TRUE(keys.insert(key.key()).second) << key.key();
  for (const MachineNumber& number : machine_numbers(Machine())) numbers.insert(number.key);
  EXPECT_EQ(keys, numbers);
}

TEST(MachineKeys, ReplaceNumbersOfAMachine) {
  EXPECT_EQ(changed("network.latency", "2e-6").network.latency, 2e-6);
  EXPECT_EQ(changed("network.latency", "2e-6").node.latency, Machine().node.latency);
  EXPECT_EQ(changed("node.small_bandwidth", "1e9").node.small_bandwidth, 1e9);
  EXPECT_EQ(changed("devices-per-node", "4").devices_per_node, 4);
  EXPECT_EQ(changed("device.flops-bf16", "1e15").flops_bf16, 1e15);
  EXPECT_TRUE(changed("network.hierarchical", "true").hierarchical);
  EXPECT_FALSE(changed("transport.shared-cores", "false").shared_cores);
}

TEST(MachineKeys, TellThatANumberWasGiven) {
  Machine machine = find_machine("perlmutter", machine_folders());
  const MachineKey& key = find_machine_key("network.latency", "--set");
  set_machine_number(machine, key, "3e-6", "--set");
  for (const MachineNumber& number : machine_numbers(machine)) {
    if (number.key == "network.latency") {
      EXPECT_EQ(number.value, 3e-6);
      EXPECT_EQ(number.status, "given");
      EXPECT_EQ(number.source, "the command line");
    }
  }
}

TEST(MachineKeys, RefuseWhatAFileMayNotHave) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"network.latency", "-1"},   {"network.latency", "fast"},  {"network.latency", "inf"}, {"network.latency", ""},
      {"network.bandwidth", "0"},  {"device.efficiency", "0"},   {"device.efficiency", "2"}, {"devices-per-node", "0"},
      {"devices-per-node", "1.5"}, {"network.hierarchical", "1"}};
  for (const auto& [key, value] : wrong) {
    EXPECT_TRUE(refuses([&, &key = key, &value = value] { changed(key, value); }, std::vector{"machine." + key}));
  }
  EXPECT_EQ(changed("device.efficiency", "1").efficiency, 1);
}

TEST(MachineKeys, NameTheNearest) {
  EXPECT_TRUE(refuses([] { (void)find_machine_key("network.latancy", "--over"); }, {"machine.network.latency?"}));
  EXPECT_TRUE(refuses([] { (void)find_machine_key("slowdown.factor", "--over"); }, {"no number"}));
}

}  // namespace
}  // namespace weft::cost
