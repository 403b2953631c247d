// What torchrun, Slurm, shells and mpirun tell a process by its environment.
#include "tools/input/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/base/messages.h"

namespace weft::tools {
namespace {

using Variables = std::map<std::string, std::string>;
using weft::testing::refuses;

Environment of(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node01"},
                             {"MASTER_PORT", "29400"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "1"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"HOME", "/home/ada"}};
const Variables kSrun = {{"SLURM_PROCID", "5"},         {"SLURM_STEP_NUM_TASKS", "8"},
                         {"SLURM_NTASKS", "8"},         {"SLURM_LOCALID", "1"},
                         {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "node[07-08]"},
                         {"SLURM_JOB_ID", "4711"},      {"SLURM_STEP_ID", "0"}};

TEST(TcpLaunch, OfTorchrun) {
  const auto launch = tcp_launch(of(kTorchrun));
  ASSERT_TRUE(launch);
  EXPECT_EQ(*launch, (comm::TcpLaunch{.rank = 3,
                                      .ranks = 8,
                                      .rank_on_node = 1,
                                      .host = "node01",
                                      .port = 29401,  // torchrun listens at the other one
                                      .run = "torchrun/none/1",
                                      .token_file = "/home/ada/.weft-token"}));
  EXPECT_EQ(tcp_launch(of(with(kTorchrun, {{"MASTER_PORT", "65535"}})))->port, 65534);
  EXPECT_EQ(tcp_launch(of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})))->port, 29400);
  // All ranks are here: no other machine is needed, whatever the name stands for.
  EXPECT_EQ(tcp_launch(of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}})))->host, "127.0.0.1");
}

// Slurm may start torchrun, whose processes have Slurm's variables too.
TEST(TcpLaunch, TakesTheInnerLauncher) {
  EXPECT_EQ(tcp_launch(of(with(kSrun, with(kTorchrun, {{"PMIX_RANK", "0"}}))))->rank, 3);
}

TEST(TcpLaunch, OfTheEnvironmentAlone) {
  const auto launch = tcp_launch(of({{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
  ASSERT_TRUE(launch);
  EXPECT_EQ(*launch, (comm::TcpLaunch{.rank = 1, .ranks = 2, .host = "127.0.0.1", .port = 29500}));
  EXPECT_EQ(tcp_launch(of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "123"}}))->host,
            "::1");
}

TEST(TcpLaunch, OfSrun) {
  const auto launch = tcp_launch(of(kSrun));
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->ranks, 8);
  EXPECT_EQ(launch->rank_on_node, 1);
  EXPECT_EQ(launch->host, "node07");
  EXPECT_EQ(launch->run, "slurm/4711.0");
  EXPECT_GE(launch->port, 20000);
  EXPECT_LT(launch->port, 30000);
  EXPECT_NE(tcp_launch(of(with(kSrun, {{"SLURM_STEP_ID", "1"}})))->port, launch->port);
  EXPECT_EQ(tcp_launch(of(with(kSrun, {{"SLURM_STEP_NUM_NODES", "1"}})))->host, "127.0.0.1");
  EXPECT_EQ(tcp_launch(of(with(kSrun, {{"MASTER_ADDR", "ib07"}, {"MASTER_PORT", "7000"}})))->host, "ib07");
}

TEST(TcpLaunch, FirstHostOfSlurmsLists) {
  EXPECT_EQ(first_host("node01"), "node01");
  EXPECT_EQ(first_host("node01,node02"), "node01");
  EXPECT_EQ(first_host("node[003-006,009],login1"), "node003");
  EXPECT_EQ(first_host("node[7,9]"), "node7");
  EXPECT_EQ(first_host("a,node[7,9]"), "a");
  EXPECT_EQ(first_host(""), "");
}

TEST(TcpLaunch, OfNobody) {
  const Variables batch_script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "4711"}};
  for (const Variables& alone : {Variables{}, Variables{{"RANK", "3"}}, Variables{{"WORLD_SIZE", "3"}}, batch_script,
                                 Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}},
                                 with(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
                                 with(kSrun, {{"PMIX_RANK", "5"}}), with(kSrun, {{"PMI_RANK", "5"}}),
                                 Variables{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}}) {
    EXPECT_FALSE(tcp_launch(of(alone)));
  }
}

TEST(TcpLaunch, RefusesWhatCantBe) {
  const auto refused = [](const Variables& more) { return [more] { (void)tcp_launch(of(with(kTorchrun, more))); }; };
  EXPECT_TRUE(refuses(refused({{"RANK", "8"}}), {"RANK = 8 with WORLD_SIZE = 8", "from 0 to 7"}));
  EXPECT_TRUE(refuses(refused({{"RANK", "three"}}), {"RANK = 'three'", "docs/cluster.md"}));
  EXPECT_TRUE(refuses(refused({{"WORLD_SIZE", "0"}}), {"WORLD_SIZE = '0'"}));
  EXPECT_TRUE(refuses(refused({{"MASTER_PORT", "66000"}}), {"MASTER_PORT = '66000'", "65535"}));
  EXPECT_TRUE(refuses(
      [] {
        (void)tcp_launch(of({{"RANK", "1"}, {"MASTER_ADDR", "loom"}}));
      },
      {"RANK and MASTER_ADDR", "without WORLD_SIZE"}));
  EXPECT_TRUE(refuses([] { (void)tcp_launch(of(with(kSrun, {{"SLURM_PROCID", "8"}}))); }, {"SLURM_PROCID = 8"}));
}

}  // namespace
}  // namespace weft::tools
