// The communicator that a run gets, and refusals.
#include "train/step/device_choice.h"

#include <gtest/gtest.h>

#include <array>

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

constexpr Surroundings kThreads{.launched = Launched::as_threads, .ranks = 4, .devices = 3};
constexpr Surroundings kThreadsWithGpus{.launched = Launched::as_threads, .ranks = 4, .devices = 4};
constexpr Surroundings kProcesses{.launched = Launched::by_mpi, .ranks = 4, .devices = 3};
constexpr Surroundings kProcessesWithGpus{.launched = Launched::over_tcp, .ranks = 4, .devices = 4};

constexpr std::array kAllLaunched = {Launched::as_threads, Launched::by_mpi, Launched::over_tcp};

TEST(DeviceChoice, AutoTakesWhatFits) {
  const RunConfig config = config_of(DeviceKind::cuda, Kind::automatic);
  EXPECT_EQ(choose_communicator(config, kThreads), Kind::local);
  EXPECT_EQ(choose_communicator(config, kThreadsWithGpus), Kind::nccl);
  EXPECT_EQ(choose_communicator(config, kProcesses), Kind::staged);
  EXPECT_EQ(choose_communicator(config, kProcessesWithGpus), Kind::nccl);
  for (const Launched launched : kAllLaunched) {
    EXPECT_EQ(choose_communicator(config, {.launched = launched, .ranks = 1, .devices = 1}), Kind::local);
  }
}

TEST(DeviceChoice, TakesWhatIsAskedForOrRefusesWhatCantBe) {
  struct Case {
    Kind kind;
    bool cuda_graph;
    const Surroundings& surroundings;
    std::vector<std::string_view> refusal = {};  // none: what is asked for is taken
  };
  for (const Case& each :
       std::vector<Case>{{Kind::staged, false, kThreads},
                         {Kind::staged, false, kProcesses},
                         {Kind::staged, false, kProcessesWithGpus},
                         {Kind::nccl, false, kThreadsWithGpus},
                         {Kind::nccl, false, kProcessesWithGpus},
                         {Kind::local, false, kThreads},
                         {Kind::local, false, kThreadsWithGpus},
                         {Kind::nccl, false, kThreads, {"4 ranks and 3 GPUs", "--ranks 3", "--communicator local"}},
                         {Kind::nccl, false, kProcesses, {"4 ranks and 3 GPUs", "-np 3", "--communicator staged"}},
                         {Kind::local, false, kProcesses, {"--ranks 4 without mpirun"}},
                         {Kind::mpi, false, kProcesses, {"--communicator staged"}},
                         {Kind::staged, true, kThreads, {"leave --cuda-graph out"}},
                         {Kind::automatic, true, kProcesses, {"leave --cuda-graph out"}}}) {
    const RunConfig config = config_of(DeviceKind::cuda, each.kind, each.cuda_graph);
    if (each.refusal.empty()) {
      EXPECT_EQ(choose_communicator(config, each.surroundings), each.kind) << each.surroundings.devices;
    } else {
      EXPECT_TRUE(refuses([&] { choose_communicator(config, each.surroundings); }, each.refusal))
          << each.refusal.front();
    }
  }
  for (const Surroundings& fits : {kThreads, kProcessesWithGpus}) {
    EXPECT_NO_THROW(choose_communicator(config_of(DeviceKind::cuda, Kind::automatic, true), fits));
  }
}

TEST(DeviceChoice, StagesOnManyThreadsDontGoThroughTheHost) {
  const auto of_ranks = [](std::int64_t pipe, Kind kind, Launched launched) {
    RunConfig config = config_of(DeviceKind::cuda, kind);
    config.grid.pipe = config.ranks = pipe;
    return testing::message_of<UserError>(
        [&] { choose_communicator(config, {.launched = launched, .ranks = static_cast<int>(pipe), .devices = 1}); });
  };
  EXPECT_EQ(of_ranks(3, Kind::staged, Launched::as_threads), "");
  EXPECT_NE(of_ranks(4, Kind::staged, Launched::as_threads).find("--communicator local"), std::string::npos);
  EXPECT_EQ(of_ranks(4, Kind::staged, Launched::by_mpi), "");
  EXPECT_EQ(of_ranks(4, Kind::staged, Launched::over_tcp), "");
  EXPECT_EQ(of_ranks(4, Kind::local, Launched::as_threads), "");
}

TEST(DeviceChoice, OnTheCpuRanksAreThreadsOrProcesses) {
  const auto of_cpus = [](Kind kind, Launched launched) {
    return testing::message_of<UserError>([&] { check_communicator(config_of(DeviceKind::cpu, kind), launched); });
  };
  for (const Launched launched : kAllLaunched) {
    EXPECT_EQ(of_cpus(Kind::automatic, launched), "");
    EXPECT_EQ(of_cpus(Kind::local, launched).empty(), launched == Launched::as_threads);
    EXPECT_EQ(of_cpus(Kind::mpi, launched).empty(), launched == Launched::by_mpi);
    EXPECT_EQ(of_cpus(Kind::tcp, launched).empty(), launched == Launched::over_tcp);
    EXPECT_NE(of_cpus(Kind::nccl, launched).find("--device cuda"), std::string::npos);
    EXPECT_NE(of_cpus(Kind::staged, launched).find("--device cuda"), std::string::npos);
  }
}

TEST(DeviceChoice, OnlyProcessesShareCoresOut) {
  RunConfig config = config_of(DeviceKind::cpu, Kind::automatic);
  config.bind = Binding::cores;
  const auto message = [&](Launched launched) {
    return testing::message_of<UserError>([&] { check_communicator(config, launched); });
  };
  EXPECT_TRUE(testing::has_parts(message(Launched::as_threads), {"bind = cores with 4 ranks", "mpirun -np 4"}));
  EXPECT_EQ(message(Launched::by_mpi), "");
  EXPECT_EQ(message(Launched::over_tcp), "");
  config.ranks = 1;
  EXPECT_EQ(message(Launched::as_threads), "");
  EXPECT_NE(binding_of(config), nullptr);
  config.bind = Binding::automatic;
  EXPECT_EQ(binding_of(config), nullptr) << "on CPUs";
}

}  // namespace
}  // namespace weft::train
