// The communicator that a run gets, and refusals.
#include "train/step/device_choice.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::train {
namespace {

using Kind = CommunicatorKind;

RunConfig config_of(DeviceKind device, Kind communicator, bool cuda_graph = false) {
  RunConfig config;
  config.device = device;
  config.communicator = communicator;
  config.cuda_graph = cuda_graph;
  config.ranks = 4;
  return config;
}

constexpr Surroundings kThreads{.mpi = false, .ranks = 4, .devices = 3};
constexpr Surroundings kThreadsWithGpus{.mpi = false, .ranks = 4, .devices = 4};
constexpr Surroundings kProcesses{.mpi = true, .ranks = 4, .devices = 3};
constexpr Surroundings kProcessesWithGpus{.mpi = true, .ranks = 4, .devices = 4};

TEST(DeviceChoice, AutoTakesWhatFits) {
  const RunConfig config = config_of(DeviceKind::cuda, Kind::automatic);
  EXPECT_EQ(choose_communicator(config, kThreads), Kind::local);
  EXPECT_EQ(choose_communicator(config, kThreadsWithGpus), Kind::nccl);
  EXPECT_EQ(choose_communicator(config, kProcesses), Kind::staged);
  EXPECT_EQ(choose_communicator(config, kProcessesWithGpus), Kind::nccl);
  for (const bool mpi : {false, true}) {
    EXPECT_EQ(choose_communicator(config, {.mpi = mpi, .ranks = 1, .devices = 1}), Kind::local);
  }
}

TEST(DeviceChoice, WhatIsAskedForIsTaken) {
  for (const Surroundings& surroundings : {kThreads, kProcesses, kProcessesWithGpus}) {
    EXPECT_EQ(choose_communicator(config_of(DeviceKind::cuda, Kind::staged), surroundings), Kind::staged);
  }
  EXPECT_EQ(choose_communicator(config_of(DeviceKind::cuda, Kind::nccl), kThreadsWithGpus), Kind::nccl);
  EXPECT_EQ(choose_communicator(config_of(DeviceKind::cuda, Kind::nccl), kProcessesWithGpus), Kind::nccl);
  for (const Surroundings& surroundings : {kThreads, kThreadsWithGpus}) {
    EXPECT_EQ(choose_communicator(config_of(DeviceKind::cuda, Kind::local), surroundings), Kind::local);
  }
}

TEST(DeviceChoice, RefusesWhatCantBe) {
  const auto of_gpus = [](Kind kind, bool cuda_graph, const Surroundings& surroundings) {
    return testing::message_of<UserError>(
        [&] { choose_communicator(config_of(DeviceKind::cuda, kind, cuda_graph), surroundings); });
  };
  EXPECT_TRUE(
      has_parts(of_gpus(Kind::nccl, false, kThreads), {"4 ranks and 3 GPUs", "--ranks 3", "--communicator local"}));
  EXPECT_TRUE(
      has_parts(of_gpus(Kind::nccl, false, kProcesses), {"4 ranks and 3 GPUs", "-np 3", "--communicator staged"}));
  EXPECT_NE(of_gpus(Kind::local, false, kProcesses).find("--ranks 4 without mpirun"), std::string::npos);
  EXPECT_NE(of_gpus(Kind::mpi, false, kProcesses).find("--communicator staged"), std::string::npos);
  EXPECT_NE(of_gpus(Kind::staged, true, kThreads).find("leave --cuda-graph out"), std::string::npos);
  EXPECT_NE(of_gpus(Kind::automatic, true, kProcesses).find("leave --cuda-graph out"), std::string::npos);
  EXPECT_EQ(of_gpus(Kind::automatic, true, kThreads), "");
  EXPECT_EQ(of_gpus(Kind::automatic, true, kProcessesWithGpus), "");
}

TEST(DeviceChoice, StagesOnManyThreadsDontGoThroughTheHost) {
  const auto of_ranks = [](std::int64_t pipe, Kind kind, bool mpi) {
    RunConfig config = config_of(DeviceKind::cuda, kind);
    config.grid.pipe = config.ranks = pipe;
    return testing::message_of<UserError>(
        [&] { choose_communicator(config, {.mpi = mpi, .ranks = static_cast<int>(pipe), .devices = 1}); });
  };
  EXPECT_EQ(of_ranks(3, Kind::staged, false), "");
  EXPECT_NE(of_ranks(4, Kind::staged, false).find("--communicator local"), std::string::npos);
  EXPECT_EQ(of_ranks(4, Kind::staged, true), "");
  EXPECT_EQ(of_ranks(4, Kind::local, false), "");
}

TEST(DeviceChoice, OnTheCpuRanksAreThreadsOrProcesses) {
  const auto of_cpus = [](Kind kind, bool launched_by_mpi) {
    return testing::message_of<UserError>(
        [&] { check_communicator(config_of(DeviceKind::cpu, kind), launched_by_mpi); });
  };
  for (const bool launched_by_mpi : {false, true}) {
    EXPECT_EQ(of_cpus(Kind::automatic, launched_by_mpi), "");
    EXPECT_EQ(of_cpus(Kind::local, launched_by_mpi).empty(), !launched_by_mpi);
    EXPECT_EQ(of_cpus(Kind::mpi, launched_by_mpi).empty(), launched_by_mpi);
    EXPECT_NE(of_cpus(Kind::nccl, launched_by_mpi).find("--device cuda"), std::string::npos);
    EXPECT_NE(of_cpus(Kind::staged, launched_by_mpi).find("--device cuda"), std::string::npos);
  }
}

TEST(DeviceChoice, IsAKey) {
  RunConfig config;
  set_key(config, "communicator", "staged", "--communicator");
  EXPECT_EQ(config.communicator, Kind::staged);
  RunConfig back;
  load_toml_text(back, dump_toml(config), "dump");
  EXPECT_EQ(back.communicator, Kind::staged);
  EXPECT_THROW(set_key(config, "communicator", "ncl", "--communicator"), UserError);
}

}  // namespace
}  // namespace weft::train
