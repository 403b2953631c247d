#include "tests/tools/run_command.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

namespace weft::testing {

CommandResult result_of(ChildProcess& child) {
  const int exit_code = child.wait(std::chrono::minutes(10)).exit_code;
  return {exit_code, child.output(), child.errors()};
}

CommandResult run(const std::vector<std::string>& words, const std::string& folder) {
  ChildProcess child(words, {.folder = folder});
  return result_of(child);
}

CommandResult run_weft(const std::vector<std::string>& arguments, const std::string& folder) {
  std::vector<std::string> words{WEFT_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(words, folder);
}

std::vector<std::string> mpi_words(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{WEFT_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return under_mpirun(ranks, words);
}

}  // namespace weft::testing

namespace weft::tools {
namespace {

TEST(RunCommand, KeepsOutputsAndExitCodeApart) {
  const testing::CommandResult good = testing::run_weft({"--version"});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_NE(good.output, "");
  EXPECT_EQ(good.errors, "");
  const testing::CommandResult bad = testing::run_weft({"nothing-of-the-kind"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(bad.output, "");
  EXPECT_NE(bad.errors, "");
}

TEST(RunCommand, ASignalIsNoExitCode) {
  testing::ChildProcess sleeper({"/bin/sleep", "60"});
  EXPECT_TRUE(sleeper.running());
  sleeper.send(SIGKILL);
  EXPECT_EQ(testing::result_of(sleeper).exit_code, -1);
  EXPECT_FALSE(sleeper.running());
}

}  // namespace
}  // namespace weft::tools
