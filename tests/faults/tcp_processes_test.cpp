// Processes that meet over TCP train with the bits of mpirun, and end with a name for whatever goes wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/comm/socket.h"
#include "runtime/execute/cpu/core_binding.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "tests/runtime/comm/tcp_ranks.h"

namespace weft {
namespace {

using testing::ChildProcess;
using Jobs = std::vector<std::unique_ptr<ChildProcess>>;

class TcpProcesses : public ::testing::Test {
 protected:
  TcpProcesses() { std::filesystem::permissions(token_, std::filesystem::perms::owner_read); }

  /// The command as one rank, with variables as a person sets them.
  std::vector<std::string> as_rank(int rank, int ranks, const std::vector<std::string>& command) const {
    return testing::joined({"/usr/bin/env", fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", ranks),
                            "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", port_)},
                           command);
  }
  std::vector<std::string> training(const std::string& run, const std::vector<std::string>& more = {}) const {
    return testing::tiny_training(folder_.path(run).string(),
                                  testing::joined({"--token-file", token_, "--steps", "4"}, more));
  }
  Jobs start(int ranks, const std::vector<std::string>& command) const {
    Jobs jobs;
    for (int r = 0; r < ranks; ++r) jobs.push_back(std::make_unique<ChildProcess>(as_rank(r, ranks, command)));
    return jobs;
  }
  std::map<std::string, std::string> arrays(const std::string& run) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path(run) / "checkpoints")) {
      if (entry.path().extension() != ".safetensors") continue;
      files[entry.path().filename().string()] = testing::TemporaryFolder::read(entry.path());
    }
    return files;
  }

  const testing::TemporaryFolder folder_;
  const std::string token_ = folder_.write("token", "the token of this test");
  const int port_ = testing::free_port();
};

struct Run {
  const char* name;
  int ranks;
  std::vector<std::string> arguments;
};
class TcpProcessesTrain : public TcpProcesses, public ::testing::WithParamInterface<Run> {};
INSTANTIATE_TEST_SUITE_P(Runs, TcpProcessesTrain,
                         ::testing::Values(Run{"On2", 2, {}},
                                           Run{"Bf16On3", 3, {"--global-batch", "3", "--dtype", "bf16"}},
                                           Run{"Grid4", 4, {"--grid", "x=2,z=2"}},
                                           Run{"Pipe2", 2, {"--grid", "pipe=2", "--model.layers", "2"}},
                                           Run{"On8", 8, {"--grid", "x=2,y=2,z=2", "--model.heads", "4"}}),
                         [](const auto& info) { return info.param.name; });

TEST_P(TcpProcessesTrain, WithTheBitsOfMpirun) {
  const auto& [name, ranks, more] = GetParam();
  ChildProcess by_mpirun(testing::under_mpirun(ranks, training("mpirun", more)));
  ASSERT_EQ(by_mpirun.wait().exit_code, 0) << by_mpirun.errors();
  const Jobs jobs = start(ranks, training("tcp", testing::joined(more, {"--communicator", "tcp"})));
  for (const auto& job : jobs) ASSERT_EQ(job->wait().exit_code, 0) << job->errors();
  const auto expected = arrays("mpirun"), found = arrays("tcp");
  ASSERT_GE(expected.size(), 2U);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [file, bytes] : expected) EXPECT_TRUE(found.contains(file) && found.at(file) == bytes) << file;
}

TEST_F(TcpProcesses, ALostRankIsNamed) {
  const std::vector<std::string> endless = training("run", {"--steps", "100000000"});
  Jobs jobs = start(3, testing::joined(endless, {"--global-batch", "3"}));
  ASSERT_TRUE(testing::trains(*jobs[0], folder_.path("run").string())) << jobs[0]->errors();
  jobs[1]->send(SIGKILL);
  for (const int r : {0, 2}) {
    const testing::Ending ending = jobs[static_cast<std::size_t>(r)]->wait();
    EXPECT_TRUE(ending.in_time);
    EXPECT_EQ(ending.exit_code, 3);
  }
  EXPECT_TRUE(has_parts(jobs[0]->errors(), {"weft: error: rank 0: rank 1 (process ", "is lost"}));
  EXPECT_EQ(jobs[2]->errors().find("weft: error"),
            std::string::npos);  // rank 0 is on the same machine, and has said it
}

TEST_F(TcpProcesses, ALostRank0IsNamed) {
  Jobs jobs = start(3, training("run", {"--steps", "100000000", "--global-batch", "3"}));
  ASSERT_TRUE(testing::trains(*jobs[0], folder_.path("run").string())) << jobs[0]->errors();
  jobs[0]->send(SIGKILL);
  for (const int r : {1, 2}) EXPECT_EQ(jobs[static_cast<std::size_t>(r)]->wait().exit_code, 3);
  EXPECT_TRUE(has_parts(jobs[1]->errors(), {"weft: error: rank 1: rank 0 (process ", "is lost"}));
}

TEST_F(TcpProcesses, AStoppedRankIsNoticedByTheWatchdog) {
  Jobs jobs = start(2, training("run", {"--steps", "100000000", "--watchdog", "2"}));
  ASSERT_TRUE(testing::trains(*jobs[0], folder_.path("run").string())) << jobs[0]->errors();
  jobs[1]->send(SIGSTOP);
  EXPECT_EQ(jobs[0]->wait().exit_code, 3);
  EXPECT_TRUE(has_parts(jobs[0]->errors(), {"rank 0:", "at collective '", "waits for its peers"}));
}

TEST_F(TcpProcesses, ALateRankIsNamed) {
  ChildProcess alone(as_rank(0, 2, training("run", {"--peer-timeout", "1"})));
  EXPECT_EQ(alone.wait().exit_code, 2);
  EXPECT_TRUE(has_parts(alone.errors(), {"rank 1 of 2 didn't come within 1 s", "fix: "}));
}

TEST_F(TcpProcesses, AnotherWorldIsNamed) {
  ChildProcess first(as_rank(0, 2, training("run"))), second(as_rank(1, 3, training("run")));
  for (ChildProcess* each : {&first, &second}) {
    EXPECT_EQ(each->wait().exit_code, 2);
    EXPECT_TRUE(has_parts(each->errors(), {"rank 1 (process ", "for 3 ranks, rank 0 for 2"}));
  }
}

TEST_F(TcpProcesses, TwoRanks0AreNamed) {
  ChildProcess first(as_rank(0, 2, training("run"))), second(as_rank(0, 2, training("run")));
  for (ChildProcess* each : {&first, &second}) {
    EXPECT_EQ(each->wait().exit_code, 2);
    EXPECT_TRUE(has_parts(each->errors(), {"two processes were started as rank 0"}));
  }
}

TEST_F(TcpProcesses, AStrangerIsNamedAndDisturbsNobody) {
  ChildProcess first(as_rank(0, 2, training("run")));
  std::vector<comm::Socket> strangers;
  std::string why;
  while (strangers.empty()) {
    auto socket = comm::Socket::connected(testing::kLoopback.with_port(port_), comm::seconds_from_now(1), why);
    if (socket) strangers.push_back(std::move(*socket));
  }
  const std::string_view request = "GET / HTTP/1.0\r\n\r\n";
  EXPECT_TRUE(strangers.front().send_all(std::as_bytes(std::span(request)), comm::seconds_from_now(5)));
  ASSERT_TRUE(testing::wait_until([&] { return first.errors().find("turned away") != std::string::npos; }));
  ChildProcess second(as_rank(1, 2, training("run")));
  EXPECT_EQ(first.wait().exit_code, 0) << first.errors();
  EXPECT_EQ(second.wait().exit_code, 0) << second.errors();
  EXPECT_TRUE(has_parts(first.errors(), {"weft: warning: a stranger at 127.0.0.1:", "it isn't Weft"}));
}

TEST_F(TcpProcesses, AnotherTokenIsNamed) {
  const std::string other = folder_.write("other", "the token of another test");
  std::filesystem::permissions(other, std::filesystem::perms::owner_read);
  ChildProcess first(as_rank(0, 2, training("run", {"--peer-timeout", "8"})));
  ChildProcess second(as_rank(1, 2, training("run", {"--token-file", other})));
  EXPECT_EQ(second.wait().exit_code, 2);
  EXPECT_TRUE(has_parts(second.errors(), {"rank 0 at 127.0.0.1:", "has another token", "--token-file"}));
  EXPECT_EQ(first.wait().exit_code, 2);
  EXPECT_TRUE(
      has_parts(first.errors(), {"a stranger at 127.0.0.1:", "it has another token", "rank 1 of 2 didn't come"}));
}

TEST_F(TcpProcesses, DifferingConfigurationsAreRefusedOnce) {
  ChildProcess first(as_rank(0, 2, training("run", {"--lr", "1e-3"})));
  ChildProcess second(as_rank(1, 2, training("run", {"--lr", "2e-3"})));
  EXPECT_EQ(first.wait().exit_code, 2);
  EXPECT_EQ(second.wait().exit_code, 2);
  EXPECT_TRUE(has_parts(first.errors(), {"weft: error: rank 1 was started with lr = 0.002, rank 0 with lr = 0.001"}));
  EXPECT_EQ(second.errors(), "");
}

/// The cores on which each thread of a process may run.
std::set<std::string> cores_of_threads(pid_t process) {
  std::set<std::string> cores;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process))) {
    std::istringstream status(testing::TemporaryFolder::read(thread.path() / "status"));
    constexpr std::string_view kField = "Cpus_allowed_list:\t";
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(kField)) cores.insert(line.substr(kField.size()));
    }
  }
  return cores;
}

TEST_F(TcpProcesses, ShareTheirCoresWhereAskedTo) {
  if (execute::given_cores().count() < 2) GTEST_SKIP() << "needs two cores";
  Jobs jobs = start(2, training("run", {"--steps", "100000000", "--bind", "cores", "--threads", "2"}));
  ASSERT_TRUE(testing::trains(*jobs[0], folder_.path("run").string())) << jobs[0]->errors();
  execute::Cores all;
  for (const auto& job : jobs) {
    const std::set<std::string> cores = cores_of_threads(job->id());
    ASSERT_EQ(cores.size(), 1U) << "threads of one process: " << ::testing::PrintToString(cores);
    const execute::Cores own = execute::cores_in(*cores.begin()).value();
    EXPECT_TRUE((own & all).none());
    all |= own;
  }
  EXPECT_EQ(all, execute::given_cores());
}

// torchrun's own variables; its port is its own, so that ranks meet at the next one.
TEST_F(TcpProcesses, TrainAsTorchrunStartsThem) {
  Jobs jobs;
  for (int r = 0; r < 2; ++r) {
    jobs.push_back(std::make_unique<ChildProcess>(
        testing::joined({"/usr/bin/env", fmt::format("RANK={}", r), "WORLD_SIZE=2", fmt::format("LOCAL_RANK={}", r),
                         "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=no-such-host.invalid",
                         fmt::format("MASTER_PORT={}", port_ - 1), "TORCHELASTIC_RUN_ID=none",
                         "TORCHELASTIC_USE_AGENT_STORE=True", fmt::format("HOME={}", folder_.path().string())},
                        testing::tiny_training(folder_.path("run").string(), {"--steps", "2"}))));
  }
  for (const auto& job : jobs) EXPECT_EQ(job->wait().exit_code, 0) << job->errors();
  EXPECT_TRUE(std::filesystem::exists(folder_.path(".weft-token")));
}

}  // namespace
}  // namespace weft
