// The ranks of each device, as text and as JSON.
#include "train/run/run_devices.h"

#include <gtest/gtest.h>

#include "tests/runtime/comm/ranks.h"

namespace weft::train {
namespace {

// The devices that ranks in these places find on a machine with this number of GPUs.
RunDevices found_by(const std::vector<execute::ExecutorPlace>& places, std::size_t gpus = 2) {
  std::vector<RunDevices> found(places.size());
  const auto body = [&](comm::World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    found[rank] = find_devices(world, places[rank], gpus);
  };
  testing::on_ranks(static_cast<int>(places.size()), body);
  for (const RunDevices& run : found) EXPECT_EQ(to_json(run).text(), to_json(found.front()).text());
  return found.front();
}

TEST(RunDevices, ADeviceIsNamedOnceWithItsRanks) {
  const RunDevices run = found_by({{"GPU A", 5, "staged"}, {"GPU B", 6, "staged"}, {"GPU A", 5, "staged"}});
  EXPECT_EQ(to_json(run).text(), R"([{"name":"GPU A","ranks":[0,2]},{"name":"GPU B","ranks":[1]}])");
  EXPECT_EQ(to_string(run), "GPU A, GPU B, 3 ranks; communicator staged");
}

TEST(RunDevices, DevicesOfAKindAreCounted) {
  const RunDevices run = found_by({{"GPU A", 5, "nccl"}, {"GPU A", 6, "nccl"}});
  EXPECT_EQ(to_string(run), "2 × GPU A, 2 ranks; communicator nccl");
  EXPECT_EQ(to_string(found_by({{"GPU A", 5, "local"}})), "GPU A, 1 rank; communicator local");
}

TEST(RunDevices, IdleOnesAreCountedWhereRanksShareOne) {
  const std::vector<execute::ExecutorPlace> shared(3, {"GPU A", 5, "local"});
  EXPECT_EQ(found_by(shared, 1).idle, 0);
  EXPECT_EQ(found_by(shared, 4).idle, 3);
  EXPECT_EQ(to_string(found_by(shared, 2)), "GPU A, 3 ranks; communicator local; 1 other GPU is idle");
  EXPECT_EQ(found_by({{"GPU A", 5, "nccl"}, {"GPU A", 6, "nccl"}}, 8).idle, 0) << "there are as many as ranks";
  EXPECT_EQ(found_by({{"GPU A", 5, "local"}}, 8).idle, 0);
}

TEST(RunDevices, OnCpusThereAreNone) {
  const RunDevices run = found_by({{}, {}});
  EXPECT_TRUE(run.devices.empty());
  EXPECT_EQ(run.communicator, "local");
  EXPECT_EQ(to_json(run).text(), "[]");
}

}  // namespace
}  // namespace weft::train
