// A run that is killed repeatedly at arbitrary times always has a checkpoint that loads, and the next run continues
// from it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::size_t leftovers(const fs::path& run_dir) {
  std::error_code none;
  return static_cast<std::size_t>(
      std::count_if(fs::directory_iterator(train::checkpoints_of(run_dir), none), {},
                    [](const fs::directory_entry& e) { return e.path().filename().string().starts_with('.'); }));
}

// Of a grid, each rank writes a shard. The next grid continues from the checkpoint that the previous grid left,
// half-written or complete.
class KillWhileSaving : public ::testing::Test {
 protected:
  static constexpr const char* kGrids[] = {"x=2,y=2", "z=2,data=2", "x=2,z=2", "y=2,data=2", "data=1"};
  static constexpr std::size_t kOneRank = 4;

  std::vector<std::string> command(std::size_t grid, std::int64_t steps) const {
    return testing::tiny_training(
        run_dir_, {"--steps", std::to_string(steps), "--resume", "auto", "--save-every", "1", "--keep-last", "2",
                   "--schedule", "constant", "--model.heads", "4", "--global-batch", "4", "--grid", kGrids[grid]});
  }
  /// Waits until a round has saved, then for a short random time.
  void wait_for_an_instant(testing::ChildProcess& child, int longest) {
    ASSERT_TRUE(testing::wait_until([&] {
      const auto found = train::complete_checkpoints(run_dir_);
      return (!found.empty() && found.back().step > step_) || !child.running();
    }));
    ASSERT_TRUE(child.running()) << child.errors();
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<int>(0, longest)(random_)));
  }
  void expect_it_loads(int round) {
    std::int64_t loaded = 0;
    ASSERT_NO_THROW(loaded = testing::loaded_step(run_dir_)) << "round " << round;
    EXPECT_GT(loaded, step_) << "round " << round;
    step_ = loaded;
    if (leftovers(run_dir_) > 0) ++kills_while_writing_;
  }
  void expect_the_next_grid_ends_well(std::size_t grid) {
    EXPECT_GT(kills_while_writing_, 0);  // otherwise the kills tested nothing
    testing::ChildProcess last(command(grid, step_ + 2));
    ASSERT_EQ(last.wait().exit_code, 0) << last.errors();
    EXPECT_EQ(testing::loaded_step(run_dir_), step_ + 2);
    EXPECT_EQ(leftovers(run_dir_), 0U);
    EXPECT_EQ(train::complete_checkpoints(run_dir_).size(), 2U);
  }

  /// Kills the process `kills` times, each time while it runs on grid_of(round).
  template <class GridOf>
  void kill_often(int kills, GridOf grid_of) {
    for (int kill = 0; kill < kills; ++kill) {
      testing::ChildProcess child(command(grid_of(kill), 1'000'000));
      wait_for_an_instant(child, 100'000);
      if (HasFatalFailure()) return;
      child.send(SIGKILL);
      ASSERT_EQ(child.wait().signal, SIGKILL) << "round " << kill << ": " << child.errors();
      expect_it_loads(kill);
      if (HasFatalFailure()) return;
    }
    expect_the_next_grid_ends_well(grid_of(kills));
  }

  const testing::TemporaryFolder folder_;
  const std::string run_dir_ = folder_.path("run").string();
  std::mt19937 random_{7};
  std::int64_t step_ = 0;
  int kills_while_writing_ = 0;
};

TEST_F(KillWhileSaving, OfOneRank) {
  kill_often(14, [](int) { return kOneRank; });
}

TEST_F(KillWhileSaving, OfOneRankFortyTimes) {
  kill_often(40, [](int) { return kOneRank; });
}

TEST_F(KillWhileSaving, AllRanksAtOnce) {
  kill_often(12, [](int kill) { return static_cast<std::size_t>(kill) % 4; });
}

// One rank of four under mpirun is killed: the others are writing their shards, or waiting.
TEST_F(KillWhileSaving, OneProcessOfFour) {
  constexpr int kKills = 8;
  for (int kill = 0; kill < kKills; ++kill) {
    testing::ChildProcess job(testing::under_mpirun(4, command(static_cast<std::size_t>(kill) % 4, 1'000'000)));
    wait_for_an_instant(job, 200'000);
    if (HasFatalFailure()) return;
    const auto rank = job.descendant("OMPI_COMM_WORLD_RANK=" + std::to_string(kill % 4));
    ASSERT_TRUE(rank.has_value());
    ASSERT_EQ(::kill(*rank, SIGKILL), 0);
    const testing::Ending ending = job.wait();
    ASSERT_TRUE(ending.in_time) << "round " << kill << ": " << job.errors();
    ASSERT_NE(ending.exit_code, 0) << "round " << kill;
    expect_it_loads(kill);
    if (HasFatalFailure()) return;
  }
  expect_the_next_grid_ends_well(kKills % 4);
}

}  // namespace
}  // namespace weft
