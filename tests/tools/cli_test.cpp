// The command line as a user meets it: help, versions, and mistakes with their fixes and exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "train/config/config.h"

namespace weft::tools {
namespace {

/// Refused as input: exit code 2, nothing on standard output, and `parts` in the message.
void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) {
  const testing::CommandResult result = testing::run_weft(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(result.errors.starts_with("weft: error: ")) << result.errors;
  EXPECT_TRUE(has_parts(result.errors, parts));
}

TEST(Cli, VersionNamesCompilerAndBuild) {
  const testing::CommandResult result = testing::succeeded(testing::run_weft({"--version"}));
  EXPECT_TRUE(result.output.starts_with("weft 0.1.0 (")) << result.output;
}

TEST(Cli, ALevelOfInstructionsThatTheBuildLacksIsRefused) {
  expect_refused({"doctor", "--isa", "v9"}, {"--isa v9"});
  expect_refused({"--isa=v9", "doctor"}, {"--isa v9"});
  expect_refused({"doctor", "--isa"}, {"--isa without a level"});
  const testing::CommandResult version = testing::run_weft({"--version"});
  const std::size_t begin = version.output.find("kernels for ") + std::string("kernels for ").size();
  const std::string level = version.output.substr(begin, version.output.find_first_of(" )", begin) - begin);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--isa", level, "simulate", "--model", "tiny"},
                                                {"simulate", "--isa=" + level, "--model", "tiny"}}) {
    EXPECT_EQ(testing::run_weft(words).exit_code, 0) << level;
  }
}

TEST(Cli, NoCommandShowsTheHelp) {
  const testing::CommandResult result = testing::run_weft({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(testing::contains(result.errors, "Usage: weft COMMAND"));
}

TEST(Cli, UnknownFlagNamesTheNearest) {
  expect_refused({"train", "--stpes", "5"}, {"unknown flag --stpes", "did you mean --steps?"});
  expect_refused({"train", "--eval-batches", "5"}, {"unknown flag --eval-batches", "did you mean --eval-sequences?"});
  expect_refused({"eval", "run", "--eval_batches=5"}, {"did you mean --eval-sequences?"});
  expect_refused({"train", "--global-batches=5"}, {"did you mean --global-batch?"});
  expect_refused({"eval", "runs/a", "--jsn"}, {"did you mean --json?"});
  expect_refused({"--versoin"}, {"did you mean --version?"});
}

TEST(Cli, TheFirstWordIsACommand) {
  expect_refused({"foo", "train"}, {"unknown command \"foo\""});
  expect_refused({"foo", "--help"}, {"unknown command \"foo\""});
  expect_refused({"--foo", "train"}, {"weft: unknown flag --foo"});
  expect_refused({"train", "eval"}, {"eval can't be read"});
  expect_refused({"help", "trian"}, {"did you mean train?"});
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"help"}, {"help", "train"}, {"help", "trace", "diff"}}) {
    const testing::CommandResult help = testing::succeeded(testing::run_weft(words));
    std::vector<std::string> flag(words.begin() + 1, words.end());
    flag.emplace_back("--help");
    EXPECT_EQ(help.output, testing::run_weft(flag).output);
  }
}

TEST(Cli, PathsMayBeGivenAgain) {
  const testing::TemporaryFolder folder;
  folder.write("run.toml", "data = [\"x.txt\", \"y.txt\"]\nval-data = \"v.txt\"\n");
  const auto data = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "train");
    words.emplace_back("--dump-config");
    const std::string text = testing::run_weft(words, folder.path().string()).output;
    const std::size_t begin = text.find("\ndata = ") + 1;
    return text.substr(begin, text.find("\nval-split", begin) - begin);
  };
  EXPECT_EQ(data({"run.toml"}), "data = [\"x.txt\", \"y.txt\"]\nval-data = \"v.txt\"");
  EXPECT_EQ(data({"run.toml", "--data", "a b", "--lr", "0.1", "--data", "c*"}),
            "data = [\"a b\", \"c*\"]\nval-data = \"v.txt\"");
  EXPECT_EQ(data({"run.toml", "--data", "a", "--val-data=1", "--val-data=2", "--val-data=3"}),
            "data = \"a\"\nval-data = [\"1\", \"2\", \"3\"]");
  EXPECT_EQ(data({"run.toml", "--set", "data=s", "--data", "a", "--data", "b"}),
            "data = [\"a\", \"b\"]\nval-data = \"v.txt\"");
}

TEST(Cli, FlagsOverrideTheFile) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("run.toml", "steps = 3\nlr = 0.25\n");
  const testing::CommandResult result =
      testing::succeeded(testing::run_weft({"train", file, "--steps=5", "--seq_len", "16", "--set", "model.layers=2",
                                            "--no_save", "--zero-1", "true", "--dump-config"}));
  train::RunConfig config;
  train::load_toml_text(config, result.output, "dump");
  EXPECT_EQ(config.steps, 5);
  EXPECT_EQ(config.lr, 0.25);
  EXPECT_EQ(config.seq_len, 16);
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_TRUE(config.zero1);
  EXPECT_FALSE(config.save);
  expect_refused({"train", file, "--fuse-gelu=1"}, {"expected true, false, on or off"});
}

TEST(Cli, DoctorReportsInTextAndJson) {
  const testing::CommandResult text = testing::succeeded(testing::run_weft({"doctor"}));
  EXPECT_TRUE(testing::contains(text.output, "oneDNN"));
  const testing::CommandResult result = testing::run_weft({"doctor", "--json"});
  const nlohmann::json report = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << result.output;
  EXPECT_TRUE(report.at("ready").get<bool>());
  std::vector<std::string> names;
  for (const nlohmann::json& check : report.at("checks")) {
    names.push_back(check.at("name"));
    EXPECT_NE(check.at("state"), "failed") << check.dump();
  }
  for (const std::string name : {"AVX2", "oneTBB", "MPI", "Graphviz", "CUDA toolkit", "driver", "NCCL"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

// -- output -----------------------------------------------------------------------------------------------------------

TEST(Cli, OutputThatIsLostIsAFault) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--version"}, {"--help"}, {"train", "--help"}, {"train", "--dump-config"}, {"doctor"}}) {
    std::vector<std::string> words = {"/bin/sh", "-c", "exec \"$0\" \"$@\" > /dev/full", WEFT_EXECUTABLE};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const testing::CommandResult result = testing::run(words);
    EXPECT_EQ(result.exit_code, 3) << arguments.front();
    EXPECT_TRUE(testing::contains(result.errors, "standard output can't be written")) << arguments.front();
  }
}

// A pipe without a reader ends a command as it ends any other; where that signal is ignored, with an error.
TEST(Cli, AClosedPipeIsNoSuccess) {
  const auto ending = [](const std::string& before) {
    const std::string script = before + "{ sleep 0.2; \"$0\" --help; echo $? >&2; } | true";
    return testing::run({"/bin/sh", "-c", script, WEFT_EXECUTABLE}).errors;
  };
  EXPECT_EQ(ending(""), std::to_string(128 + SIGPIPE) + "\n");
  EXPECT_TRUE(testing::contains(ending("trap '' PIPE; "), "standard output can't be written"));
}

}  // namespace
}  // namespace weft::tools
