// `weft machine` as a process: its texts about machine files, and its exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/execute/device/devices.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

const std::string kMachine = R"(name = "box"
source = "a page"
devices-per-node = 2
[device]
flops-f32 = 1e9
flops-bf16 = { value = 2e9, status = "assumed" }
memory-bandwidth = 1e15
memory-bytes = 1e9
[node]
latency = 1e-6
bandwidth = 1e9
[network]
latency = 1e-6
bandwidth = 1e9
)";

std::string square(int size, double seconds, const std::string& more = "") {
  const std::string n = std::to_string(size);
  return "[[gemm]]\nm = " + n + "\nn = " + n + "\nk = " + n +
         "\nlayout = \"nn\"\ndtype = \"f32\"\nseconds = " + std::to_string(seconds) + "\n" + more;
}

class MachineCommand : public testing::WeftFolder {
 protected:
  testing::CommandResult machine(const Words& words) const { return run(testing::joined({"machine"}, words)); }
};

TEST_F(MachineCommand, ShowsEachNumberWithWhatItRestsOn) {
  const testing::CommandResult result = testing::succeeded(machine({"show", "perlmutter"}));
  EXPECT_TRUE(
      has_parts(result.output, {"perlmutter\n", "device.flops-bf16", "271.2 Tflop/s", "data sheet", "device.cores",
                                "default", "node.group[ranks=2, stride=1].bandwidth", "network.latency", "5.9 us",
                                "assumed", "slowdown[any beside any].factor", "measured points: 0 of products",
                                "5 of its numbers are unverified or assumed: device.gemm-half, "}))
      << result.output;
  EXPECT_TRUE(machine({"show"}).output.starts_with("laptop\n"));
  folder_.write("box.toml", kMachine + square(128, 0.01) + square(256, 0.1));
  const json shown = object_of({"machine", "show", "box.toml"});
  EXPECT_EQ(shown.at("machine"), "box");
  EXPECT_EQ(shown.at("gemm_points"), 2);
  EXPECT_EQ(shown.at("unsure_numbers"), json({"device.flops-bf16"}));
  const json& numbers = shown.at("numbers");
  const auto found =
      std::ranges::find_if(numbers, [](const json& number) { return number.at("key") == "device.flops-bf16"; });
  ASSERT_NE(found, numbers.end());
  EXPECT_EQ(*found, (json{{"key", "device.flops-bf16"},
                          {"value", 2e9},
                          {"unit", "operations/s"},
                          {"status", "assumed"},
                          {"source", "a page"}}));
}

TEST_F(MachineCommand, ChecksTheModelAgainstThePoints) {
  const testing::CommandResult alps = testing::succeeded(machine({"check", "alps"}));
  EXPECT_TRUE(has_parts(alps.output, {"all_reduce of 4.0 MiB, 8 ranks", "10 of 10 points"})) << alps.output;
  EXPECT_EQ(machine({"check", "perlmutter"}).exit_code, 0);
  // Each point is predicted from the other: 2·128³ operations in 4.2 ms are the device's rate, and the other point is
  // slower.
  folder_.write("box.toml", kMachine + square(128, 0.0042, "error = 0.1\n") + square(256, 0.08, "error = 3.0\n"));
  const testing::CommandResult result = machine({"check", "box.toml"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(has_parts(result.output, {"gemm 128x128x128 nn f32", "NO", "1 of 2 points"})) << result.output;
  const json checked = json::parse(machine({"check", "box.toml", "--json"}).output);
  EXPECT_FALSE(checked.at("holds").get<bool>());
  ASSERT_EQ(checked.at("points").size(), 2U);
  EXPECT_NEAR(checked.at("points")[0].at("error").get<double>(), 1.38, 0.02);
  EXPECT_TRUE(checked.at("points")[1].at("holds").get<bool>());
}

TEST_F(MachineCommand, ComparesTwoMachines) {
  folder_.write("a.toml", kMachine + square(128, 0.01));
  std::string other = kMachine;
  other.replace(other.find("flops-f32 = 1e9"), 15, "flops-f32 = 4e9");
  folder_.write("b.toml", other + square(128, 0.02) + square(256, 0.1));
  EXPECT_EQ(machine({"diff", "a.toml", "a.toml"}).output, "the machines have the same numbers\n");
  const json differences = object_of({"machine", "diff", "a.toml", "b.toml"});
  EXPECT_FALSE(differences.at("same").get<bool>());
  const json& list = differences.at("differences");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0],
            (json{{"key", "device.flops-f32"}, {"unit", "operations/s"}, {"a", 1e9}, {"b", 4e9}, {"ratio", 4.0}}));
  EXPECT_EQ(list[1].at("ratio"), 2.0);
  EXPECT_EQ(list[2], (json{{"key", "gemm 256x256x256 nn f32"}, {"unit", "s"}, {"b", 0.1}}));
  const testing::CommandResult shown = testing::succeeded(machine({"diff", "perlmutter", "alps"}));
  EXPECT_TRUE(has_parts(shown.output, {"device.flops-bf16", "271.2 Tflop/s", "813 Tflop/s", "3", "network.setup"}))
      << shown.output;
}

TEST_F(MachineCommand, CommandsThatRestOnAssumedNumbersSaySo) {
  folder_.write("box.toml", kMachine);
  const std::string line = "1 of its numbers is unverified or assumed: device.flops-bf16";
  const std::vector<std::string> step = {"--model", "tiny", "--ranks", "2", "--machine", "box.toml"};
  for (const char* command : {"simulate", "compare", "explain"}) {
    std::vector<std::string> words = testing::joined({command}, step);
    if (std::string_view(command) == "compare") words.insert(words.end(), {"--policies", "serial"});
    const testing::CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_TRUE(has_parts(result.output, {line})) << command << "\n" << result.output;
    words.emplace_back("--json");
    const json report = json::parse(run(words).output);
    EXPECT_EQ(report.at("unsure_numbers"), json({"device.flops-bf16"})) << command;
  }
  std::string sure = kMachine;
  sure.replace(sure.find("assumed"), 7, "fitted");
  folder_.write("box.toml", sure);
  EXPECT_EQ(run(testing::joined({"simulate"}, step)).output.find("assumed"), std::string::npos);
}

TEST_F(MachineCommand, RefusesWhatItCannotRead) {
  EXPECT_EQ(machine({}).exit_code, 2);
  EXPECT_TRUE(has_parts(machine({"show", "perlmuter"}).errors, {"unknown machine", "did you mean"}));
  expect_refusal({"machine", "check", "no/such.toml"}, {});
  folder_.write("wrong.toml", kMachine + square(128, 1e-9));
  expect_refusal({"machine", "check", "wrong.toml"}, {});
  expect_refusal({"machine", "measure"}, {});
  EXPECT_TRUE(has_parts(machine({"measure", "-o", "mine"}).errors, {"-o mine would not be found", "-o mine.toml"}));
  expect_refusal({"machine", "measure", "-o", "no/such/folder/mine.toml"}, {});
  expect_refusal({"machine", "measure", "-o", "mine.toml", "--ranks", "0"}, {});
  expect_refusal({"machine", "measure", "-o", "mine.toml", "--device", "tpu"}, {});
}

TEST_F(MachineCommand, MeasuresGpusOnlyWhereEachRankHasOne) {
  const std::vector<std::string> measure = {"measure", "-o", "mine.toml", "--quick", "--device", "cuda"};
  const testing::CommandResult threads = machine(testing::joined(measure, {"--threads", "2"}));
  EXPECT_EQ(threads.exit_code, 2);
  EXPECT_TRUE(has_parts(threads.errors, {"--threads 2 with --device cuda"})) << threads.errors;
  if (execute::report_devices().missing.empty()) GTEST_SKIP() << "this machine has a GPU";
  for (const char* ranks : {"1", "2"}) {
    const testing::CommandResult missing = machine(testing::joined(measure, {"--ranks", ranks}));
    EXPECT_EQ(missing.exit_code, 2);
    EXPECT_TRUE(has_parts(missing.errors, {"device cuda", "--device cpu"})) << missing.errors;
  }
}

}  // namespace
}  // namespace weft::tools
