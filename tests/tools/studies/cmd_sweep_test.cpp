// `weft sweep` as a process: rows in the order of the product, a folder that a killed sweep goes on in, refusals.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/text/escape.h"
#include "tests/faults/child_process.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class SweepCommandTest : public testing::WeftFolder {
 protected:
  static Words sweep(const Words& more) {
    return testing::joined({"sweep", "--model", "tiny", "--machine", "perlmutter", "--global-batch", "8"}, more);
  }
};

TEST_F(SweepCommandTest, PrintsTheRowsOfTheProduct) {
  const json rows = object_of(sweep({"--over", "ranks=2", "3", "machine.devices-per-node=1", "4", "--over",
                                     "micro_batch=1", "2", "--policies", "serial", "lhs"}))
                        .at("rows");
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
    return object_of(sweep(testing::joined({"--over", "ranks=2"}, more))).at("rows")[0].at("step_ms").get<double>();
  };
  EXPECT_GT(step({"--set", "machine.node.latency=1e-2"}), step({}) + 10);
}

TEST_F(SweepCommandTest, GoesOnAfterAKill) {
  const std::vector<std::string> command =
      sweep({"--over", "ranks=1", "2", "model.layers=1", "2", "3", "4", "micro-batch=1", "2", "--policies", "anneal",
             "lhs", "--jobs", "2", "-o", "out"});
  {
    testing::ChildProcess child(testing::joined({WEFT_EXECUTABLE}, command), {.folder = folder_.path().string()});
    // Killed once a few rows are there.
    for (int i = 0; i < 3000; ++i) {
      const auto table = read_csv(exists("out/results.csv") ? read("out/results.csv") : "");
      if (table && table->size() > 3) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    child.send(SIGKILL);
    child.wait();
  }
  testing::succeeded(run(command));
  const std::string whole = read("out/results.csv");
  // The same rows as of a sweep that wasn't killed.
  std::vector<std::string> again = command;
  again.back() = "other";
  ASSERT_EQ(run(again).exit_code, 0);
  EXPECT_EQ(whole, read("other/results.csv"));
  EXPECT_EQ(read("out/results.json"), read("other/results.json"));
  EXPECT_EQ(read("out/plot.svg"), read("other/plot.svg"));
  EXPECT_EQ(read("out/base.toml"), read("other/base.toml"));
  EXPECT_EQ(read_csv(whole)->size(), 33U);
}

TEST_F(SweepCommandTest, RefusesWhatItCantSweep) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "--over is required"},
      {{"--over", "micro-bath=4"}, "did you mean micro-batch"},
      {{"--over", "lr=1"}, "no key that a simulated step reads"},
      {{"--over", "micro-batch=1", "layrs=2"}, "neither a value of micro-batch nor a key"},
      {{"--over", "ranks=two"}, "ranks"},
      {{"--over", "ranks=1", "--ranks", "1"}, "leave one out"},
      {{"--over", "machine.network.latency=-1"}, "out of range"},
      {{"--over", "ranks=1", "--set", "machine.network.speed=1"}, "no number"},
      {{"--over", "ranks=1", "--policies", "fastest"}, "fastest"},
      {{"--over", "machine=perlmuter"}, "perlmutter"},
      {{"--over", "ranks=1", "--policies", "serial", "serial"}, "twice"},
      {{"--over", "ranks=1", "--seeds", "3"}, "noise"},
      {{"--over", "ranks=3", "5"}, "none of the 2 rows"},
      {{"--over", "ranks=1", "--svg", "missing/plot.svg"}, "missing/plot.svg"}};
  for (const auto& [more, part] : wrong) {
    expect_refusal(sweep(more), {part});
  }
}

TEST_F(SweepCommandTest, OtherCommandsReadNoNumbersOfTheMachine) {
  expect_refusal({"simulate", "--set", "machine.network.latency=1"}, {"numbers of the machine"});
}

}  // namespace
}  // namespace weft::tools
