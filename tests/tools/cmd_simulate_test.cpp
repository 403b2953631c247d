// `weft simulate` as a process: its texts, its files and its refusals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class SimulateCommand : public testing::WeftFolder {
 protected:
  static Words words_of(const Words& more) {
    return testing::joined({"simulate", "--model", "tiny", "--model.layers", "2"}, more);
  }
  testing::CommandResult simulate(const Words& more) const { return run(words_of(more)); }
  json figures(const Words& more) const { return object_of(words_of(more)); }
};

TEST_F(SimulateCommand, TellsTimesBoundsAndMemory) {
  const testing::CommandResult result =
      testing::succeeded(simulate({"--machine", "dgx-h100", "--grid", "x=2,z=2,data=2"}));
  EXPECT_TRUE(has_parts(result.output, {"custom on 8 ranks (x=2,y=1,z=2,data=2) of dgx-h100, policy program",
                                        "tokens/s", "critical path", "one machine", "above the greatest", "exposed",
                                        "z_gather", "memory", "unverified or assumed", "compute0  |"}))
      << result.output;
}

TEST_F(SimulateCommand, ItsFiguresAgreeWithOneAnother) {
  for (const std::string machine : {"laptop", "dgx-h100", "perlmutter", "frontier", "alps"}) {
    const json report = figures({"--machine", machine, "--grid", "x=2,y=2,z=2,data=2", "--global-batch", "16"});
    EXPECT_EQ(report.at("machine"), machine);
    EXPECT_EQ(report.at("ranks"), 16);
    const double step = report.at("step_seconds"), best = report.at("bounds_seconds").at("best");
    EXPECT_GE(step, best * (1 - 1e-9)) << machine;
    EXPECT_NEAR(report.at("gap").get<double>(), step / best - 1, 1e-9);
    EXPECT_NEAR(report.at("tokens_per_second").get<double>(), 16 * 128 / step, 1e-6 * 16 * 128 / step);
    EXPECT_LE(report.at("exposed_seconds").get<double>(), report.at("communication_seconds").get<double>());
    EXPECT_NEAR(report.at("compute_seconds").get<double>() - report.at("compute_alone_seconds").get<double>(),
                report.at("contention_seconds").get<double>(), 1e-5)
        << machine;
    for (const char* channel : {"x", "y", "z_gather", "z_scatter", "data"}) {
      EXPECT_GT(report.at("channels").at(channel).at("busy_seconds").get<double>(), 0) << channel;
    }
    EXPECT_GT(report.at("flops_share").get<double>(), 0);
    EXPECT_LT(report.at("flops_share").get<double>(), 1);
    EXPECT_TRUE(report.at("fits").get<bool>());
  }
}

TEST_F(SimulateCommand, OverlapPaysAgainstTheSerialPolicy) {
  const std::vector<std::string> words = {"--machine", "dgx-h100", "--ranks", "8", "--policy"};
  const auto with = [&](const std::string& policy) {
    std::vector<std::string> all = words;
    all.push_back(policy);
    return figures(all);
  };
  const json serial = with("serial"), program = with("program");
  EXPECT_EQ(serial.at("overlap_fraction"), 0.0);
  EXPECT_GT(program.at("overlap_fraction").get<double>(), 0.5);
  EXPECT_LT(program.at("exposed_seconds").get<double>(), serial.at("exposed_seconds").get<double>());
  EXPECT_EQ(serial.at("bounds_seconds"), program.at("bounds_seconds"));
}

TEST_F(SimulateCommand, SimulatesOneRankForThousandsOrAllOfThem) {
  const std::vector<std::string> grid = {"--machine", "frontier", "--ranks", "4096", "--global-batch", "4096"};
  const json one = figures(grid);
  EXPECT_EQ(one.at("ranks"), 4096);
  EXPECT_EQ(one.at("events"), one.at("tasks"));
  const std::vector<std::string> few = {"--machine", "frontier", "--ranks", "8"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), few.begin(), few.end());
    return figures(more);
  };
  const json alike = with({}), slow = with({"--slow-rank", "2"}), noisy = with({"--noise", "0.1"});
  EXPECT_EQ(slow.at("events").get<int>(), 8 * alike.at("events").get<int>());
  EXPECT_GT(slow.at("step_seconds").get<double>(), 1.2 * alike.at("step_seconds").get<double>());
  EXPECT_EQ(noisy, with({"--noise", "0.1"}));
  EXPECT_NE(noisy.at("step_seconds"), with({"--noise", "0.1", "--seed", "1"}).at("step_seconds"));
  const json longer = with({"--simulated-steps", "3"});
  EXPECT_EQ(longer.at("events").get<int>(), 3 * alike.at("events").get<int>());
  EXPECT_NEAR(longer.at("step_seconds").get<double>(), alike.at("step_seconds").get<double>(), 1e-12);
}

TEST_F(SimulateCommand, WritesATraceAndAPicture) {
  testing::succeeded(
      simulate({"--ranks", "2", "--slow-rank", "1.5", "--streams", "2", "-o", "t.json", "--svg", "t.svg"}));
  const json trace = read_json("t.json");
  int tasks = 0;
  std::set<int> ranks;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++tasks;
    ranks.insert(event.at("pid").get<int>());
  }
  EXPECT_GT(tasks, 100);
  EXPECT_EQ(ranks, (std::set<int>{1, 2}));
  EXPECT_NE(read("t.svg").find("<svg"), std::string::npos);
}

TEST_F(SimulateCommand, TakesAMachineOfItsUser) {
  std::string ours = testing::TemporaryFolder::read(WEFT_SOURCE_DIR "/machines/alps.toml");
  folder_.write("ours.toml", ours.replace(ours.find("\"alps\""), 6, "\"ours\""));
  EXPECT_EQ(figures({"--machine", "ours.toml"}).at("machine"), "ours");
  folder_.write("small.toml", ours.replace(ours.find("memory-bytes = 96e9"), 19, "memory-bytes = 1e6 "));
  EXPECT_EQ(simulate({"--machine", "small.toml"}).exit_code, 2);
  const testing::CommandResult small = testing::succeeded(simulate({"--machine", "small.toml", "--memory", "none"}));
  EXPECT_TRUE(has_parts(small.output, {"DOESN'T FIT"}));
}

TEST_F(SimulateCommand, CountsTheRowsOfTheMostLoadedRank) {
  const auto seconds = [&](const std::string& grid, const std::string& load) {
    return object_of({"simulate", "--model", "moe-tiny", "--model.layers", "2", "--machine", "dgx-h100", "--grid", grid,
                      "--global-batch", "64", "--expert-load", load})
        .at("step_seconds")
        .get<double>();
  };
  EXPECT_EQ(seconds("z=2,expert=2", "zipf:0"), seconds("z=2,expert=2", "balanced"));
  EXPECT_GT(seconds("z=2,expert=2", "zipf:1"), seconds("z=2,expert=2", "balanced"));
}

TEST_F(SimulateCommand, RefusesWhatItCannotUse) {
  folder_.write("broken.toml", "name = \"box\"\ndevices = 3\n");
  struct Case {
    std::vector<std::string> words;
    std::vector<std::string> parts;
  };
  for (const auto& [words, parts] :
       std::vector<Case>{{{"--machine", "perlmuter"}, {"unknown machine", "did you mean --machine perlmutter?"}},
                         {{"--machine", "broken.toml"}, {"broken.toml line", "devices-per-node"}},
                         {{"--streams", "0"}, {"--streams"}},
                         {{"--noise", "-1"}, {"--noise"}},
                         {{"--slow-rank", "0"}, {"--slow-rank 0", "from 0.01 to 1000"}},
                         {{"--slow-rank", "1="}, {"--slow-rank 1="}},
                         {{"--slow-rank", "last=2"}, {"--slow-rank last=2"}},
                         {{"--slow-rank", "4096=2"}, {"4096", "from 0 to"}},
                         {{"--simulated-steps", "0"}, {"--simulated-steps"}},
                         {{"--grid", "x=3"}, {"x"}},
                         {{"--expert-load", "zipf:1"}, {"of a model without experts"}},
                         {{"--model", "moe-tiny", "--grid", "z=2", "--expert-load", "zipf:1"},
                          {"expert-load = zipf:1 has no effect on a grid without expert=P", "expert=P for it"}},
                         {{"--expert-load", "zipf:many"}, {"--expert-load", "zipf"}},
                         {{"--machin", "laptop"}, {"did you mean --machine?"}},
                         {{"-o", "no/such/folder.json"}, {"no/such"}}}) {
    expect_refusal(words_of(words), parts);
  }
}

}  // namespace
}  // namespace weft::tools
