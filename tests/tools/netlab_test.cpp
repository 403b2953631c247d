// tools/netlab: a command runs on every host, over links of the rate asked for, and nothing is left of them afterwards.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

using Words = std::vector<std::string>;

/// Signals as a terminal would leave them: a test that is started in the background ignores SIGINT, and so would bash.
Words netlab(const Words& arguments) {
  Words words{"/usr/bin/env", "--default-signal=INT,TERM", WEFT_SOURCE_DIR "/tools/netlab"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

/// The namespaces of the run with the process `pid`.
Words namespaces_of(pid_t pid) {
  Words found;
  const std::string prefix = "weftlab-" + std::to_string(pid) + "-";
  std::error_code none;  // there is no such folder before the first namespace
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", none)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path().filename());
  }
  return found;
}

std::set<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

TEST(Netlab, HelpHasExamples) {
  const testing::CommandResult help = testing::succeeded(testing::run(netlab({"--help"})));
  EXPECT_TRUE(testing::contains(help.output, "Examples:\n  tools/netlab ")) << help.output;
  EXPECT_EQ(help.errors, "");
}

TEST(Netlab, RefusesWhatItCannotBuild) {
  const auto expect_refused = [](const Words& arguments, const std::string& part) {
    const testing::CommandResult result = testing::run(netlab(arguments));
    EXPECT_EQ(result.exit_code, 2) << part;
    EXPECT_EQ(result.output, "") << part;
    EXPECT_TRUE(testing::contains(result.errors, part)) << part << "\nin " << result.errors;
  };
  for (const std::string rate : {"0gbit", "0.0mbit", "1", "fast", "1gbyte", "1gbit;", "1e3gbit", ".5gbit"}) {
    expect_refused({rate, "2", "true"}, "rate " + rate + "; expected");
  }
  expect_refused({"-1gbit", "2", "true"}, "unknown option -1gbit");
  for (const std::string ranks : {"0", "1", "17", "100", "two", "2.5", "-2", ""}) {
    expect_refused({"1gbit", ranks, "true"}, ranks + " ranks; expected 2 to 16");
  }
  expect_refused({"1gbit", "2"}, "no command");
  expect_refused({"1gbit", "2", "--"}, "no command");
  expect_refused({"1gbit"}, "expected RATE RANKS COMMAND");
  expect_refused({"--loss", "1", "1gbit", "2", "true"}, "unknown option --loss");
  expect_refused({"--tcp"}, "--tcp needs a name");
}

TEST(Netlab, SaysThatItNeedsRoot) {
  // The script comes from standard input, because another user may not read the source folder.
  const std::string as_nobody = geteuid() == 0 ? "setpriv --reuid 65534 --clear-groups " : "";
  const testing::CommandResult result =
      testing::run({"/bin/sh", "-c", as_nobody + "bash -s 1gbit 2 true < " WEFT_SOURCE_DIR "/tools/netlab"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(testing::contains(result.errors, "needs root")) << result.errors;
}

/// Tests that build networks: skipped where that isn't possible.
class NetlabNetwork : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "Network namespaces need root.";
    const testing::CommandResult probe = testing::run(netlab({"1gbit", "2", "true"}));
    const bool impossible = probe.exit_code == 2 && (testing::contains(probe.errors, "is not installed") ||
                                                     testing::contains(probe.errors, "can't make network namespaces") ||
                                                     testing::contains(probe.errors, "can't limit a link"));
    if (impossible) GTEST_SKIP() << probe.errors;
    ASSERT_EQ(probe.exit_code, 0) << probe.errors;
  }
};

// Apart from the test of what hosts print: mpirun ends the other ranks when the first one fails.
TEST_F(NetlabNetwork, ExitsWithTheCommandsCode) {
  EXPECT_EQ(testing::run(netlab({"300mbit", "2", "--", "/bin/sh", "-c", "exit 7"})).exit_code, 7);
}

TEST_F(NetlabNetwork, RunsTheCommandOnEachHostBehindItsLink) {
  for (const int ranks : {2, 3}) {
    testing::ChildProcess command(netlab({"300mbit", std::to_string(ranks), "--", "/bin/sh", "-c",
                                          "echo $(hostname): $(tc qdisc show dev cable) \"$1\"", "sh", "two  words"}));
    const testing::CommandResult result = testing::succeeded(testing::result_of(command));
    const std::set<std::string> lines = lines_of(result.output);
    EXPECT_EQ(lines.size(), static_cast<std::size_t>(ranks)) << result.output;
    for (const std::string& line : lines) {
      EXPECT_TRUE(line.starts_with("weftlab-" + std::to_string(command.id()) + "-")) << line;
      EXPECT_TRUE(testing::contains(line, " tbf ") && testing::contains(line, "rate 300Mbit")) << line;
      EXPECT_TRUE(line.ends_with(" two  words")) << line;
    }
    EXPECT_EQ(namespaces_of(command.id()), Words{});
  }
}

TEST_F(NetlabNetwork, TwoRunsAtOnceDoNotMeet) {
  testing::ChildProcess first(netlab({"1gbit", "3", "hostname"})), second(netlab({"1gbit", "3", "hostname"}));
  const testing::CommandResult one = testing::succeeded(testing::result_of(first)),
                               other = testing::succeeded(testing::result_of(second));
  std::set<std::string> hosts = lines_of(one.output);
  hosts.merge(lines_of(other.output));
  EXPECT_EQ(hosts.size(), 6U);
}

TEST_F(NetlabNetwork, LeavesNothingBehindWhenKilled) {
  for (const auto& [signal, exit_code] : {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130}}) {
    const testing::TemporaryFolder folder;
    testing::ChildProcess command(
        netlab({"1gbit", "3", "/bin/sh", "-c",
                "echo $$ > part.$(hostname); mv part.$(hostname) pid.$(hostname); exec sleep 600"}),
        {.folder = folder.path().string()});
    Words files;
    while (files.size() < 3 && command.running()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      files.clear();
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        if (entry.path().filename().string().starts_with("pid.")) files.push_back(entry.path().string());
      }
    }
    ASSERT_TRUE(command.running()) << command.errors();
    EXPECT_EQ(namespaces_of(command.id()).size(), 4U);  // the hosts and the switch
    command.send(signal);
    EXPECT_EQ(testing::result_of(command).exit_code, exit_code);
    EXPECT_EQ(namespaces_of(command.id()), Words{});
    for (const std::string& file : files) {
      const std::string pid = std::to_string(std::atoi(testing::TemporaryFolder::read(file).c_str()));
      ASSERT_NE(pid, "0") << file;
      // A dead process that nobody has waited for yet has no words either.
      EXPECT_EQ(testing::TemporaryFolder::read("/proc/" + pid + "/cmdline"), "")
          << "process " << pid << " is still there";
    }
  }
}

}  // namespace
}  // namespace weft::tools
