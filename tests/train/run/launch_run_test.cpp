#include "train/run/launch_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "base/error.h"

namespace weft::train {
namespace {

RunConfig three_ranks() {
  RunConfig config;
  config.ranks = 3;
  config.global_batch = 6;
  return config;
}

TEST(LaunchRun, RunsEveryRankOnTheResolvedConfiguration) {
  std::mutex mutex;
  std::set<int> ranks;
  std::set<std::string> folders;
  const int code = run_on_ranks(three_ranks(), [&](comm::World& world, const ResolvedRun& run) {
    const RunConfig& config = run.config;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(config.grid.data, 3);
    EXPECT_EQ(config.micro_batch, 2);
    EXPECT_EQ(config.seq_len, config.model.context);
    EXPECT_GT(config.threads, 0);
    ranks.insert(world.rank());
    folders.insert(config.run_dir);
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(folders.size(), 1U);
  EXPECT_NE(*folders.begin(), "");
}

TEST(LaunchRun, GridAloneSaysHowManyRanks) {
  RunConfig config;
  config.grid.data = 4;
  std::atomic<int> calls = 0;
  EXPECT_EQ(run_on_ranks(config, [&](comm::World&, const ResolvedRun&) { return ++calls, 0; }), 0);
  EXPECT_EQ(calls, 4);
}

TEST(LaunchRun, AdjustsBeforeResolving) {
  RunConfig config = three_ranks();
  config.global_batch = 7;  // 3 ranks can't share it
  EXPECT_THROW(run_on_ranks(config, [](comm::World&, const ResolvedRun&) { return 0; }), UserError);
  const auto adjust = [](RunConfig& changed, std::int64_t ranks) { changed.global_batch = 5 * ranks; };
  const int code = run_on_ranks(
      config,
      [](comm::World&, const ResolvedRun& run) {
        EXPECT_EQ(run.config.global_batch, 15);
        return 0;
      },
      adjust);
  EXPECT_EQ(code, 0);
}

TEST(LaunchRun, AGridIsChosenOnceForTheRanks) {
  RunConfig config;
  config.ranks = 4;
  config.grid_auto = true;
  const auto body = [](comm::World&, const ResolvedRun& run) {
    EXPECT_FALSE(run.config.grid_auto);
    EXPECT_EQ(run.config.grid.z, 4);
    EXPECT_EQ(run.config.micro_batch, 1);
    return 0;
  };
  EXPECT_THROW(run_on_ranks(config, body), UserError);  // nobody chooses
  int calls = 0;
  const ChooseGrid choose = [&](const RunConfig& open, const RankCount& ranks) {
    EXPECT_TRUE(open.grid_auto);
    EXPECT_EQ(ranks.all, 4);
    EXPECT_EQ(ranks.on_node, 4);
    ++calls;
    return std::vector<Setting>{{"grid", "z=4", ""}, {"micro-batch", "1", ""}};
  };
  EXPECT_EQ(run_on_ranks(config, body, {}, choose), 0);
  EXPECT_EQ(calls, 1);
  // As many ranks as the grid had that was there before; a grid that is given isn't chosen.
  config.ranks = 0;
  config.grid.data = 4;
  EXPECT_EQ(run_on_ranks(config, body, {}, choose), 0);
  config.grid_auto = false;
  EXPECT_EQ(run_on_ranks(
                config,
                [](comm::World&, const ResolvedRun& run) {
                  EXPECT_EQ(run.config.grid.data, 4);
                  return 0;
                },
                {}, choose),
            0);
  EXPECT_EQ(calls, 2);
}

TEST(LaunchRun, TheGreatestExitCodeWins) {
  EXPECT_EQ(run_on_ranks(three_ranks(), [](comm::World& world, const ResolvedRun&) { return world.rank(); }), 2);
}

}  // namespace
}  // namespace weft::train
