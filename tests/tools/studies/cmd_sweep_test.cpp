// `weft sweep` as a process: rows in the order of the product, a folder that a killed sweep goes on in, refusals.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/text/csv.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class SweepCommandTest : public ::testing::Test {
 protected:
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    return testing::joined({"sweep", "--model", "tiny", "--machine", "perlmutter", "--global-batch", "8"}, more);
  }
  testing::CommandResult sweep(const std::vector<std::string>& more) const {
    return testing::run_weft(words(more), folder_.path().string());
  }
  std::string text(const std::string& name) const { return testing::TemporaryFolder::read(folder_.path(name)); }

  const testing::TemporaryFolder folder_;
};

TEST_F(SweepCommandTest, PrintsTheRowsOfTheProduct) {
  const auto result = sweep({"--over", "ranks=2", "3", "machine.devices-per-node=1", "4", "--over", "micro_batch=1",
                             "2", "--policies", "serial", "lhs", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const json rows = json::parse(result.output).at("rows");
  ASSERT_EQ(rows.size(), 16U);
  EXPECT_EQ(rows[1].at("policy"), "lhs");
  EXPECT_EQ(rows[2].at("micro-batch"), 2);
  EXPECT_EQ(rows[4].at("machine.devices-per-node"), 4);
  EXPECT_EQ(rows[8].at("ranks"), 3);
  EXPECT_NE(rows[8].at("reason").get<std::string>().find("3 data ranks"), std::string::npos);
  // Ranks of two nodes communicate longer.
  EXPECT_GT(rows[0].at("communication_ms"), rows[4].at("communication_ms"));
}

TEST_F(SweepCommandTest, FixesNumbersOfTheMachine) {
  const auto step = [&](const std::vector<std::string>& more) {
    const auto result = sweep(testing::joined({"--over", "ranks=2", "--json"}, more));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.output).at("rows")[0].at("step_ms").get<double>();
  };
  EXPECT_GT(step({"--set", "machine.node.latency=1e-2"}), step({}) + 10);
}

TEST_F(SweepCommandTest, GoesOnAfterAKill) {
  const std::vector<std::string> command =
      words({"--over", "ranks=1", "2", "model.layers=1", "2", "3", "4", "micro-batch=1", "2", "--policies", "anneal",
             "lhs", "--jobs", "2", "-o", "out"});
  const std::string results = folder_.path("out/results.csv").string();
  {
    testing::ChildProcess child(testing::joined({WEFT_EXECUTABLE}, command), {.folder = folder_.path().string()});
    // Killed once a few rows are there.
    for (int i = 0; i < 3000; ++i) {
      const auto table = read_csv(std::filesystem::exists(results) ? text("out/results.csv") : "");
      if (table && table->size() > 3) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    child.send(SIGKILL);
    child.wait();
  }
  const auto resumed = testing::run_weft(command, folder_.path().string());
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  const std::string whole = text("out/results.csv");
  // The same rows as of a sweep that wasn't killed.
  std::vector<std::string> again = command;
  again.back() = "other";
  ASSERT_EQ(testing::run_weft(again, folder_.path().string()).exit_code, 0);
  EXPECT_EQ(whole, text("other/results.csv"));
  EXPECT_EQ(text("out/results.json"), text("other/results.json"));
  EXPECT_EQ(text("out/plot.svg"), text("other/plot.svg"));
  EXPECT_EQ(text("out/base.toml"), text("other/base.toml"));
  EXPECT_EQ(read_csv(whole)->size(), 33U);
}

TEST_F(SweepCommandTest, RefusesWhatItCantSweep) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "--over is required"},
      {{"--over", "4"}, "no key"},
      {{"--over", "micro-bath=4"}, "did you mean micro-batch"},
      {{"--over", "lr=1"}, "no key that a simulated step reads"},
      {{"--over", "ranks=1", "2", "--over", "layrs=2"}, "did you mean model.layers"},
      {{"--over", "ranks=two"}, "ranks"},
      {{"--over", "ranks=1", "--ranks", "1"}, "leave one out"},
      {{"--over", "machine.network.latency=-1"}, "out of range"},
      {{"--over", "ranks=1", "--set", "machine.network.speed=1"}, "no number"},
      {{"--over", "ranks=1", "--policies", "fastest"}, "fastest"},
      {{"--over", "ranks=1", "--seeds", "3"}, "noise"},
      {{"--over", "ranks=3", "5"}, "none of the 2 rows"},
      {{"--over", "ranks=1", "--svg", "missing/plot.svg"}, "missing/plot.svg"}};
  for (const auto& [more, part] : wrong) {
    const auto result = sweep(more);
    EXPECT_EQ(result.exit_code, 2) << part << result.errors << result.output;
    EXPECT_NE(result.errors.find(part), std::string::npos) << result.errors;
    EXPECT_EQ(result.output, "") << part;
  }
}

TEST_F(SweepCommandTest, RefusesTheFolderOfAnotherSweep) {
  ASSERT_EQ(sweep({"--over", "ranks=1", "2", "-o", "out"}).exit_code, 0);
  const auto other = sweep({"--over", "ranks=1", "2", "--seq-len", "16", "-o", "out"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.errors.find("seq-len = 16"), std::string::npos) << other.errors;
  EXPECT_EQ(testing::run_weft({"simulate", "out/base.toml"}, folder_.path().string()).exit_code, 0);
}

TEST_F(SweepCommandTest, OtherCommandsReadNoNumbersOfTheMachine) {
  const auto result = testing::run_weft({"simulate", "--set", "machine.network.latency=1"}, folder_.path().string());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("numbers of the machine"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace weft::tools
