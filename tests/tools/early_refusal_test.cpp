// Anything that a configuration names and can't have is refused before data is opened and before anything is tuned or
// measured. The data that these commands name don't exist, and the message is about something else.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/run_command.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

struct Bad {
  Words flags;
  std::string named;  // in the message
};

std::vector<Bad> bad_configurations() {
  return {{{"--policy", "programm"}, "programm"},
          {{"--policy", "axonn:lokahead=3"}, "lokahead"},
          {{"--policy", "file:no-plan.json"}, "no-plan.json"},
          {{"--policy", "file:bad-plan.json"}, "bad-plan.json"},
          {{"--policy", "./no-library.so"}, "no-library.so"},
          {{"--rewrites", "bukket"}, "bukket"},
          {{"--machine", "no-machine"}, "no-machine"},
          {{"--machine", "bad-machine.toml"}, "bad-machine.toml"},
          {{"--profile", "no-profile.json"}, "no-profile.json"},
          {{"--profile", "bad-profile.json"}, "bad-profile.json"},
          {{"--communicator", "nccl"}, "communicator = nccl with device cpu"},
          {{"--device", "cuda", "--communicator", "mpi"}, "communicator = mpi with device cuda"},
          {{"--device", "cuda", "--model", "llama-tiny", "--model.head-size", "264"}, "heads of 264 columns"},
          {{"--device", "cuda", "--pack-weights", "on"}, "pack-weights with device = cuda"},
          {{"--device", "cuda", "--communicator", "staged", "--cuda-graph"}, "staged with cuda-graph"}};
}

class EarlyRefusal : public testing::SmallStep {
 protected:
  EarlyRefusal() {
    folder_.write("bad-plan.json", "{\"format\":\"weft-plan\",\"version\":1}");
    folder_.write("bad-machine.toml", "name = 3\n");
    folder_.write("bad-profile.json", "{}");
  }

  /// A key that the command doesn't read is in its configuration file.
  testing::CommandResult run_here(Words words, const Words& more) const {
    std::string file;
    for (std::size_t i = 0; i < more.size(); ++i) {
      const std::string key = more[i].substr(2);
      const bool alone = i + 1 == more.size() || more[i + 1].starts_with("--");
      if (tools::reads_key(words.front(), key)) {
        words.push_back(more[i]);
        if (!alone) words.push_back(more[i + 1]);
      } else {
        file += key + " = " + (alone ? "true" : '"' + more[i + 1] + '"') + '\n';
      }
      i += alone ? 0 : 1;
    }
    folder_.write("unread.toml", file + "steps = 3\n");
    words.emplace_back("unread.toml");
    return run(words);
  }

  /// A single message about `named`, none before it, and no file.
  void expect_early_refusal(const Words& command, const Bad& bad) const {
    const testing::CommandResult result = run_here(command, bad.flags);
    SCOPED_TRACE(command.front() + ": " + result.errors);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(result.errors.starts_with("weft: error: "));
    EXPECT_NE(result.errors.find(bad.named), std::string::npos);
    EXPECT_EQ(result.errors.find("nowhere"), std::string::npos) << "the data was looked for first";
    for (const char* made : {"run", "tuning", "plan.json", "graph.dot", "tuned.json", "profile.json"}) {
      EXPECT_FALSE(exists(made)) << made;
    }
  }
};

/// Commands that plan a step of a configuration, but for training.
const std::vector<Words> kPlanning = {

    {"plan", "-o", "plan.json"},
    {"simulate"},
    {"compare"},
    {"compare", "--measure"},
    {"explain"},
    {"profile", "-o", "profile.json"},
    {"tune", "-o", "tuned.json"},
    {"memory"},
    {"memory", "--grids", "data=2"},
    {"timeline"},
    {"graph", "-o", "graph.dot"}};

TEST_F(EarlyRefusal, HoldsForEveryCommandThatTakesAConfiguration) {
  std::vector<Words> commands = {{"train", "--run-dir", "run", "--gemm-tuning", "auto"}, {"train", "--dry-run"}};
  commands.insert(commands.end(), kPlanning.begin(), kPlanning.end());
  for (const Words& command : commands) {
    for (Bad bad : bad_configurations()) {
      Words typed = command;
      // The policies of compare are --policies; it loads no library that a configuration file names.
      if (command.front() == "compare" && bad.flags == Words{"--policy", "./no-library.so"}) {
        typed.insert(typed.end(), {"--policies", "./no-library.so"});
        bad.flags.clear();
      }
      bad.flags.insert(bad.flags.end(), {"--data", "nowhere.txt", "--ranks", "2"});
      expect_early_refusal(typed, bad);
    }
  }
}

TEST_F(EarlyRefusal, HoldsForATuningFileOfATraining) {
  expect_early_refusal({"train", "--run-dir", "run", "--data", "nowhere.txt"},
                       {{"--gemm-tuning", "no-tuning.json"}, "no-tuning.json"});
}

TEST_F(EarlyRefusal, HoldsForAGridThatOnlyTrainingChooses) {
  for (const Words& command : kPlanning) {
    expect_early_refusal(command, {{"--grid", "auto", "--ranks", "2"}, "`weft search --ranks N"});
  }
  expect_refused("memory", {"--grids", "auto"}, {"`weft search"});
}

TEST_F(EarlyRefusal, NamesThePolicyBeforeSizes) {
  expect_early_refusal({"simulate", "--ranks", "3"}, {{"--policy", "programm"}, "programm"});
}

// The run's machine file is gone by the time of the evaluation.
TEST_F(EarlyRefusal, HoldsForAnEvaluation) {
  const std::string machine = testing::TemporaryFolder::read(fs::path(WEFT_SOURCE_DIR) / "machines/laptop.toml");
  folder_.write("mine.toml", machine);
  testing::succeeded(weft("train", {"--machine", "mine.toml", "--steps", "1", "--run-dir", "run", "--quiet"}));
  fs::remove(folder_.path("mine.toml"));
  const testing::CommandResult result = run({"eval", "run", "--data", "nowhere.txt"});
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_TRUE(has(result.errors, "mine.toml")) << result.errors;
  EXPECT_FALSE(has(result.errors, "nowhere")) << result.errors;
}

}  // namespace
}  // namespace weft::tools
