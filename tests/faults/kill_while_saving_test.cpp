// A run killed at any instant, over and over, always has a checkpoint that loads, and the next run goes on from it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "tests/faults/child_process.h"
#include "tests/faults/loaded_checkpoint.h"
#include "tests/train/temporary_folder.h"
#include "train/checkpoint.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::size_t leftovers(const fs::path& run_dir) {
  std::error_code none;
  return static_cast<std::size_t>(
      std::count_if(fs::directory_iterator(checkpoints_of(run_dir), none), {},
                    [](const fs::directory_entry& e) { return e.path().filename().string().starts_with('.'); }));
}

TEST(KillWhileSaving, TheLastCompleteCheckpointAlwaysLoads) {
  constexpr int kKills = 100;
  constexpr int kLongestWait =
      100'000;  // µs after the first checkpoint of a round: at least a save, on a slow disk too
  const TemporaryFolder folder;
  const std::string run_dir = folder.path("run").string();
  const auto command = [&](std::int64_t steps) {
    return tiny_training(run_dir, {"--steps", std::to_string(steps), "--resume", "auto", "--save-every", "1",
                                   "--keep-last", "2", "--schedule", "constant"});
  };
  std::mt19937 random(42);
  std::uniform_int_distribution<int> instant(0, kLongestWait);
  std::int64_t step = 0;
  int kills_while_writing = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    ChildProcess child(command(1'000'000));
    ASSERT_TRUE(wait_until([&] {
      const auto found = complete_checkpoints(run_dir);
      return (!found.empty() && found.back().step > step) || !child.running();
    }));
    std::this_thread::sleep_for(std::chrono::microseconds(instant(random)));
    child.send(SIGKILL);
    ASSERT_EQ(child.wait().signal, SIGKILL) << "round " << kill << ": " << child.errors();
    std::int64_t loaded = 0;
    ASSERT_NO_THROW(loaded = loaded_step(run_dir)) << "round " << kill;
    EXPECT_GT(loaded, step) << "round " << kill;
    step = loaded;
    if (leftovers(run_dir) > 0) ++kills_while_writing;
  }
  EXPECT_GT(kills_while_writing, 0);  // else the instants were no test

  ChildProcess last(command(step + 2));
  ASSERT_EQ(last.wait().exit_code, 0) << last.errors();
  EXPECT_EQ(loaded_step(run_dir), step + 2);
  EXPECT_EQ(leftovers(run_dir), 0U);
  EXPECT_EQ(complete_checkpoints(run_dir).size(), 2U);
}

}  // namespace
}  // namespace weft
